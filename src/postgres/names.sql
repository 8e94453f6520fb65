-- The registry of names.

-- name: register
-- Registers keys that this process uses for the first time in a while, and answers with what they were called before.
-- A key that is missing in the answer was new. Relies on name_pkey.
with wanted as (
  select key, namespace, label
  from unnest($1::bigint[], $2::text[], $3::text[]) as w (key, namespace, label)
),
written as (
  insert into holdfast.name (key, namespace, label)
  select key, namespace, label
  from wanted
  on conflict (key) do update
  set used_at = now()
  where name.used_at < now() - interval '6 hours'
)
select name.key, name.namespace, name.label
from holdfast.name
where name.key = any($1::bigint[])
