-- Statements about wait records, which show people long waits and reveal deadlocks.

-- name: record_waits
-- Records calls that have waited for longer than 1 s. $8 is the time for which the records are valid, in ms. $8 is null for an instance with an
-- anchor, because its records are valid while the instance has a session. $9 is the instance's name.
insert into holdfast.wait (instance, request, key, kind, mode, since, holding, valid_until, instance_name)
select
  $1, request, key, kind, mode, now() - make_interval(secs => age_ms / 1000), holding::bigint[],
  now() + make_interval(secs => $8::float8 / 1000), $9::text
from unnest($2::integer[], $3::bigint[], $4::text[], $5::text[], $6::float8[], $7::text[])
  as w (request, key, kind, mode, age_ms, holding)
on conflict (instance, request) do nothing

-- name: renew_waits
-- Extends the validity of the wait records that an instance without an anchor has made.
update holdfast.wait
set valid_until = now() + make_interval(secs => $2::float8 / 1000)
where instance = $1

-- name: delete_waits
delete from holdfast.wait
where instance = $1
  and request = any($2::integer[])

-- name: find_cycle
-- Searches for a cycle of waits through one wait record. Each row of the result is one call in the cycle, the youngest call first. Records
-- of instances without a session are ignored. Waits for permits are also ignored, because any of several holders may release a permit.
with recursive living as materialized (
  select wait.*
  from holdfast.wait
  where kind <> 'permit'
    and (
      valid_until > clock_timestamp()
      or exists (select from pg_stat_activity where application_name = 'holdfast ' || wait.instance)
    )
),
chain as (
  select instance, request, key, array[instance || ' ' || request] as path
  from living
  where instance = $1
    and request = $2::integer
  union all
  select living.instance, living.request, living.key, chain.path || (living.instance || ' ' || living.request)
  from chain
  join living on chain.key = any(living.holding)
  where not (living.instance || ' ' || living.request) = any(chain.path)
    and cardinality(chain.path) < 20
),
closed as (
  select chain.path
  from chain
  join living first on first.instance = $1 and first.request = $2::integer
  where chain.key = any(first.holding)
  order by cardinality(chain.path)
  limit 1
)
select
  living.instance,
  living.request::text as request,
  coalesce(name.label, living.key::text) as label,
  living.instance_name
from closed
cross join unnest(closed.path) with ordinality as side (id, place)
join living on living.instance || ' ' || living.request = side.id
left join holdfast.name on name.key = living.key
order by living.since desc, living.instance, living.request
