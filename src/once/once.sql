-- None of these statements needs session state, so any connection pooler works. Statements that lock several rows lock them in key order,
-- so that they cannot deadlock.

-- name: claim prepared
-- Returns one key's state, and claims the key if it is free. See holdfast.claim_delivery. Numbers are text, because Prisma converts no text
-- to a number, and a key's lock does not fit into a JavaScript number.
select state, fence, fingerprint, value, body
from holdfast.claim_delivery($1, $2, $3::text::bigint, $4, $5::text::integer, $6, $7::text::bigint, $8::boolean, $9)

-- name: claim_batch prepared
-- Returns each key's state, and claims the free keys. See holdfast.claim_deliveries.
select key, state, fence, fingerprint, value, body
from holdfast.claim_deliveries($1, $2::text::json, $3::boolean, $4)

-- name: finish prepared
-- Records the result of one run. In a handler's transaction, $8 is the start of the transaction. If the handler has ended the transaction,
-- this statement runs in a later one, and records nothing. See holdfast.finish_delivery.
select case
  when extract(epoch from now())::text <> $8 then 'ended'
  when holdfast.finish_delivery($1, $2, $3, $4, $5, $6::bytea, $7::text::bigint) then 'recorded'
  else 'taken over'
end as result

-- name: finish_batch
-- Records the results of several runs by the same rules as holdfast.finish_delivery, with one update for all rows. Returns the tokens of the
-- runs whose results are recorded now or were recorded before. Uses the index delivery_pkey.
with flushed as materialized (
  select case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end
),
answered as materialized (
  select key, token, state, value, retain_ms
  from flushed, json_to_recordset($2::text::json)
    as a (key text, token text, state text, value text, retain_ms bigint)
),
mine as materialized (
  select delivery.key, delivery.token, delivery.state as was, answered.state, answered.value, answered.retain_ms
  from answered
  join holdfast.delivery on delivery.namespace = $1
    and delivery.key = answered.key
    and delivery.key = any(array(select answered.key from answered))
    and delivery.token = answered.token
  order by delivery.key
  for update of delivery
),
finished as (
  update holdfast.delivery
  set state = mine.state,
      value = mine.value::json,
      body = null,
      finished_at = clock_timestamp(),
      expires_at = clock_timestamp() + make_interval(secs => mine.retain_ms / 1000.0)
  from mine
  where delivery.namespace = $1
    and delivery.key = mine.key
    and delivery.key = any(array(select mine.key from mine))
    and mine.was = 'in-flight'
)
select token
from mine

-- name: release
-- Frees keys whose runs have failed, or whose claims received no response. The commit is not flushed, because a crash also frees these
-- keys.
with unflushed as materialized (
  select set_config('synchronous_commit', 'off', true)
),
asked as materialized (
  select key, token
  from unflushed, json_to_recordset($2::text::json) as a (key text, token text)
),
mine as materialized (
  select delivery.key, delivery.token
  from asked
  join holdfast.delivery on delivery.namespace = $1
    and delivery.key = asked.key
    and delivery.key = any(array(select asked.key from asked))
    and delivery.token = asked.token
    and delivery.state = 'in-flight'
  order by delivery.key
  for update of delivery
)
delete from holdfast.delivery
using mine
where delivery.namespace = $1
  and delivery.key = mine.key
  and delivery.key = any(array(select mine.key from mine))
  and delivery.token = mine.token

-- name: release_unfinished
-- Frees the key of a run whose commit received no response, if the run is still in flight. Waits at most $4 ms for the run's transaction,
-- which holds the row lock until it commits or rolls back.
with patience as materialized (
  select set_config('lock_timeout', $4, true)
)
delete from holdfast.delivery
using patience
where namespace = $1
  and key = $2
  and token = $3
  and state = 'in-flight'
returning key

-- name: run_state
-- Returns the state of the run with the given token. Returns no row if another run has taken over.
select state
from holdfast.delivery
where namespace = $1
  and key = $2
  and token = $3

-- name: attempt_transaction
-- Returns the backend's process ID, and the start of the transaction, which identifies the transaction. Reads no table, because the
-- statement is sent together with `begin` and is therefore parsed and planned each time.
select pg_backend_pid() as pid, extract(epoch from now())::text as began

-- name: begin_attempt
-- Begins the attempt in a transaction that the user's library has begun. Makes the server end the transaction if this
-- process freezes or loses its connection, so that the next attempt does not wait for the transaction's row locks.
-- Returns the same columns as attempt_transaction, and whether the instance has a row in this database.
select
  pg_backend_pid() as pid,
  extract(epoch from now())::text as began,
  exists (select from holdfast.instance where id = $2) as known
from set_config('idle_in_transaction_session_timeout', $1, true)

-- name: is_same_transaction
-- Returns whether the transaction is still the one that began at the given time. If the handler has ended its transaction, this statement
-- runs in a later one.
select extract(epoch from now())::text = $1 as yes

-- name: is_working
-- Returns whether a transaction's backend is active. If the backend is idle and a response is still missing, the connection is lost. The
-- state of another role's backend may be hidden. Such a backend counts as active.
select exists (select from pg_stat_activity where pid = $1::integer and coalesce(state, 'active') = 'active') as yes

-- name: forget
-- Removes a key's result, or a dead run's row. Does not affect a run in flight.
delete from holdfast.delivery
where namespace = $1
  and key = $2
  and case state when 'in-flight' then not holdfast.is_present(session) else true end
returning case state when 'in-flight' then false else expires_at > clock_timestamp() end as answered

-- name: sweep
-- Removes a batch of expired rows and skips locked rows. Uses the index delivery_expires_at. Uses now(), because PostgreSQL cannot use an
-- index with clock_timestamp().
with expired as materialized (
  select namespace, key
  from holdfast.delivery
  where expires_at < now()
    and case state when 'in-flight' then not holdfast.is_present(session) else true end
  order by expires_at
  limit $1::integer
  for update skip locked
),
removed as (
  delete from holdfast.delivery
  using expired
  where delivery.namespace = expired.namespace
    and delivery.key = expired.key
  returning 1
)
select count(*)::integer as removed
from removed
