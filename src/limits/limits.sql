-- name: decide_permit prepared
-- Decides one permit request. Uses the indexes limit_state_pkey and permit_pkey.
select ordinal, verdict, token, fence, used, queued, oldest_at_ms, oldest_for_ms
from holdfast.limit_decide_one(
  $1, $2, $3, $4, $5, $6::bigint, $7::bigint, $8::integer, $9::integer, $10::integer
)

-- name: decide_permits prepared
-- Decides a batch of permit requests in one transaction: attempts, waits and releases. Uses the indexes limit_state_pkey, permit_pkey and
-- permit_queue.
select ordinal, verdict, token, fence, used, queued, oldest_at_ms, oldest_for_ms
from holdfast.limit_decide(
  $1, $2, $3, $4::text::jsonb,
  $5::text::text[], $6::text::bigint[], $7::text::bigint[], $8::text::integer[], $9::text::integer[], $10::text::integer[],
  $11::boolean
)

-- name: check_waits prepared
-- Removes dead holders and dead waiters, and then returns which waiting requests have been granted.
select ordinal, verdict, fence
from holdfast.limit_check_waits($1, $2::text::jsonb)

-- name: decide_rate prepared
-- Decides one rate request. Uses the index rate_pkey.
select holdfast.rate_decide_one($1::bigint, $2, $3, $4::bigint, $5::bigint, $6::bigint, $7::bigint) as after_ns

-- name: decide_rates prepared
-- Decides a batch of rate requests. Uses the index rate_pkey.
select ordinal, after_ns
from holdfast.rate_decide($1::text::jsonb, $2::boolean)

-- name: sweep
-- Deletes idle entities, fully recovered rates and permits of dead epochs. One call checks only a few pages of each table.
select holdfast.limit_sweep($1, $2::float8, $3::integer)

-- name: usage
-- Returns an entity's holders and waiters that are still present.
select
  permit.instance,
  instance.name as instance_name,
  instance.host,
  instance.os_pid,
  permit.weight,
  permit.max,
  permit.fence,
  extract(epoch from permit.since)::float8 * 1000 as since_ms
from holdfast.permit
left join holdfast.instance on instance.session = permit.session and instance.id = permit.instance
where permit.key = $1::bigint
  and permit.weight > 0
  and permit.session = any(array(
    select session
    from (select distinct session from holdfast.permit where key = $1::bigint offset 0) epochs
    where holdfast.is_present(session)
  ))
order by permit.fence nulls last, permit.wait_order
