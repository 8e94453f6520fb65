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

-- name: read_waits
-- Returns the calls that can be part of a deadlock, the oldest call first: the calls that hold a name while they wait. Records of instances
-- without a session are ignored. Waits for permits are also ignored, because any of several holders may release a permit. The client searches
-- for cycles. In SQL, a recursive query enumerates every path, and the number of paths grows exponentially if several calls hold the same name.
select
  wait.instance,
  wait.request::text as request,
  wait.key::text as key,
  array_to_string(wait.holding, ' ') as holding,
  coalesce(name.label, wait.key::text) as label,
  wait.instance_name
from holdfast.wait
left join holdfast.name on name.key = wait.key
where wait.kind <> 'permit'
  and wait.holding <> '{}'
  and (
    wait.valid_until > clock_timestamp()
    or exists (select from pg_stat_activity where application_name = 'holdfast ' || wait.instance)
  )
order by wait.since, wait.instance desc, wait.request desc
