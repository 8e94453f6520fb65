-- Deliveries: every statement stands alone and needs no state of a session, so any pooler may stand between. Statements
-- that touch several rows do so in the order of their keys, everywhere, so that they cannot deadlock among each other.

-- name: claim
-- What is known of the asked keys, or claims to those that are free; see the function.
select key, state, fence, fingerprint, value, body
from holdfast.claim_deliveries($1, $2::text::json, $3::boolean, $4)

-- name: finish
-- Records answers, each only for the run whose token is still in its row; answers with the keys for which that is so, also
-- when the same answer had been recorded before and its reply was lost. Flushed, also where the role does not flush its
-- commits: who was given the answer must not find it gone. The body ($3) belongs to the only one that is recorded with it.
-- Relies on delivery_pkey.
with flushed as materialized (
  select case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end
),
answered as materialized (
  select key, token, state, value, retain_ms
  from flushed, json_to_recordset($2::text::json)
    as a (key text, token text, state text, value text, retain_ms bigint)
),
mine as materialized (
  select delivery.key, delivery.state as was, answered.state, answered.value, answered.retain_ms
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
      body = $3::bytea,
      finished_at = clock_timestamp(),
      expires_at = clock_timestamp() + make_interval(secs => mine.retain_ms / 1000.0)
  from mine
  where delivery.namespace = $1
    and delivery.key = mine.key
    and delivery.key = any(array(select mine.key from mine))
    and mine.was = 'in-flight'
)
select key
from mine

-- name: release
-- Lets keys go whose runs failed, or whose claims nobody may have heard of. Not flushed: after a crash they are free anyway.
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
-- Asked when nobody knows how the transaction of a run has ended: lets the key go if the run is still in flight. That
-- transaction, if it is not over yet and may still commit, has locked the row: its end is waited for, $4 at most.
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
-- How the run of a token has ended; no row when it was taken over.
select state
from holdfast.delivery
where namespace = $1
  and key = $2
  and token = $3

-- name: set_idle_timeout
-- Sent first in the transaction of a run: if this process freezes or is cut off, the server ends the transaction, so that
-- whoever takes over does not wait for its row locks. A process that lives says so in time. Answers with the server process.
select set_config('idle_in_transaction_session_timeout', $1, true), pg_backend_pid() as pid

-- name: is_working
-- Whether the server process of a transaction has something to do. When it has not, an answer that is still waited for was
-- sent already, or never will be: the connection has fallen silent.
select exists (select from pg_stat_activity where pid = $1::integer and state = 'active') as yes

-- name: forget
-- Lets a key be run again: its answer, or what a dead run left, is removed. Not a run in flight.
delete from holdfast.delivery
where namespace = $1
  and key = $2
  and case state when 'in-flight' then not holdfast.is_present(session) else true end
returning case state when 'in-flight' then false else expires_at > clock_timestamp() end as answered

-- name: sweep
-- Removes what has expired, a bounded number at a time; those that somebody else removes at this moment are passed over.
-- Relies on delivery_expires_at, by now(): no index can be searched for a time that changes while the statement runs.
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
