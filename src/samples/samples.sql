-- name: write
-- Adds this instance's samples and records its terms. $1 is the instance, $2 to $5 are the arguments of sample_names, and $6 contains the terms, with
-- the ages of their starts and ends in ms. $7 is the instance's name. The commit is not flushed, because nothing depends on the last seconds before a
-- crash. Returns the database's clock in ms. Uses the indexes sample_pkey and term_pkey.
with unflushed as materialized (
  select set_config('synchronous_commit', 'off', true)
),
recorded as (
  insert into holdfast.term (key, fence, kind, mode, instance, host, os_pid, began_at, ended_at, why, instance_name)
  select
    t.key, t.fence, t.kind, t.mode, $1, i.host, i.os_pid,
    clock_timestamp() - make_interval(secs => t.began / 1000),
    clock_timestamp() - make_interval(secs => t.ended / 1000),
    case
      -- A restarting server ends sessions with the same error code as an administrator does.
      when t.why = 'session-ended'
        and exists (select from holdfast.server_generation where began_at >= clock_timestamp() - make_interval(secs => t.ended / 1000))
      then 'restarted'
      else t.why
    end,
    $7::text
  from unflushed
  cross join jsonb_to_recordset($6::text::jsonb)
    as t (key bigint, fence bigint, kind text, mode text, began float8, ended float8, why text)
  left join holdfast.instance i on i.id = $1
  order by t.key, t.fence
  on conflict (key, fence) do update
  -- Holders of the same lease token share a term. If two recorded times differ, the earlier time is correct, because a delayed statement
  -- records a later time.
  set instance = excluded.instance,
      host = excluded.host,
      os_pid = excluded.os_pid,
      instance_name = excluded.instance_name,
      began_at = least(term.began_at, excluded.began_at),
      ended_at = case when term.why = excluded.why then least(term.ended_at, excluded.ended_at) else excluded.ended_at end,
      gone_by = null,
      why = excluded.why
  returning key
)
select
  (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms,
  (select count(*) from recorded)::integer as terms,
  holdfast.sample_names($2::bigint[], $3::integer[], $4::integer[], $5::float8)::text as names
from unflushed

-- name: sweep
-- Records the end of each term whose instance is gone. Removes samples after two days and terms after $1 days. Also removes terms beyond
-- the latest $2 in total and the latest $3 per name. Each part processes a bounded number of rows. Uses the indexes sample_pkey,
-- term_instance, term_ended_at, lease_pkey and term_pkey.
with old_samples as (
  delete from holdfast.sample
  where (hour, key) in (
    select hour, key
    from holdfast.sample
    where hour < clock_timestamp() - interval '49 hours'
    order by hour
    limit 10000
  )
),
holder as materialized (
  select
    instance as id,
    exists (select from holdfast.instance i where i.id = open.instance and holdfast.is_present(i.session)) as is_present
  from (select distinct instance from holdfast.term where ended_at is null) as open
),
silent as materialized (
  select term.key, term.fence
  from holder
  join holdfast.term on term.instance = holder.id and term.ended_at is null
  where case term.kind
    when 'lock' then not is_present
    else not exists (
      select
      from holdfast.lease
      where lease.key = term.key
        and lease.fence = term.fence
        and lease.expires_at > clock_timestamp()
    )
  end
  limit 1000
),
gone as (
  update holdfast.term
  set ended_at = end_at,
      gone_by = end_by,
      why = reason
  from silent
  cross join lateral holdfast.term_end(silent.key, silent.fence)
  where term.key = silent.key
    and term.fence = silent.fence
    and term.ended_at is null
  returning term.key
),
oldest as materialized (
  select greatest(
    clock_timestamp() - make_interval(days => $1::integer),
    (select ended_at from holdfast.term where ended_at is not null order by ended_at desc offset $2::integer limit 1)
  ) as at
),
old_terms as (
  delete from holdfast.term
  where (key, fence) in (
    select key, fence
    from holdfast.term
    where ended_at < (select at from oldest)
    order by ended_at
    limit 10000
  )
),
crowded as (
  delete from holdfast.term
  where (key, fence) in (
    select key, fence
    from (
      select key, fence, ended_at, row_number() over (partition by key order by fence desc) as place
      from holdfast.term
    ) as ranked
    where place > $3::integer
      and ended_at is not null
    limit 10000
  )
)
select count(*)::integer as gone from gone
