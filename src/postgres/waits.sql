-- Waits that last, written down: for people, and to find who waits for each other.

-- name: record_waits
-- Notes what has been waited for, for longer than a second. Without an anchor the note is believed for so many ms ($8) and
-- must be renewed; with one, for as long as the instance has a session (null).
insert into holdfast.wait (instance, request, key, kind, mode, since, holding, valid_until)
select
  $1, request, key, kind, mode, now() - make_interval(secs => age_ms / 1000), holding::bigint[],
  now() + make_interval(secs => $8::float8 / 1000)
from unnest($2::integer[], $3::bigint[], $4::text[], $5::text[], $6::float8[], $7::text[])
  as w (request, key, kind, mode, age_ms, holding)
on conflict (instance, request) do nothing

-- name: renew_waits
-- An instance without an anchor still waits.
update holdfast.wait
set valid_until = now() + make_interval(secs => $2::float8 / 1000)
where instance = $1

-- name: delete_waits
delete from holdfast.wait
where instance = $1
  and request = any($2::integer[])

-- name: find_cycle
-- Follows who waits for whom, from one noted wait, until it comes back to it. Each row of the answer is one side of
-- the cycle; the youngest is the one to fail. Instances without a session left are dead, whatever was noted. A permit may
-- come from any of several holders, so that waits for permits prove nothing here.
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
  instance.host,
  instance.os_pid::text as os_pid
from closed
cross join unnest(closed.path) with ordinality as side (id, place)
join living on living.instance || ' ' || living.request = side.id
left join holdfast.name on name.key = living.key
left join holdfast.instance on instance.id = living.instance
order by living.since desc, living.instance, living.request
