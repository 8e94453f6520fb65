-- name: register
-- Registers keys, and returns the names that are already registered for them. A key that has no row in the result was new. Writes rows in key
-- order, so that two instances that register the same keys cannot deadlock. Uses name_pkey.
with wanted as (
  select key, namespace, label
  from unnest($1::bigint[], $2::text[], $3::text[]) as w (key, namespace, label)
),
written as (
  insert into holdfast.name (key, namespace, label)
  select key, namespace, label
  from wanted
  order by key
  on conflict (key) do update
  set used_at = now()
  where name.used_at < now() - interval '6 hours'
)
select name.key, name.namespace, name.label
from holdfast.name
where name.key = any($1::bigint[])
