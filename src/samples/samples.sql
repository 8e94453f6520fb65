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
-- See holdfast.sample_sweep.
select holdfast.sample_sweep($1::integer, $2::integer, $3::integer) as gone
