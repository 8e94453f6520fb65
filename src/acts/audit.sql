-- Statements for the audit log.

-- name: begin
-- Records an act before it runs ($1 visitor, $2 act, $3 subject, $4 parameters, $5 consequence, $6 reason). Deletes up to 1,000 entries
-- older than 90 days. Logical replication copies the entries but not their sequence, so this statement first advances the sequence past the
-- copied entries. Only roles that may write to the audit log may advance the sequence. Uses the index audit_at.
with caught_up as materialized (
  select holdfast.catch_up_sequences()
),
forgotten as (
  delete from holdfast.audit
  where id in (
    select id
    from holdfast.audit
    where at < now() - interval '90 days'
    order by at
    limit 1000
  )
)
insert into holdfast.audit (visitor, act, subject, params, consequence, reason)
select $1, $2, $3, $4::text::jsonb, $5, $6
from caught_up
returning id::text as id

-- name: latest
-- Returns the latest $1 entries. If $2 is not null, returns only entries from the last $2 milliseconds. Uses the index
-- audit_at.
select
  id::text as id,
  (extract(epoch from at) * 1000)::float8 as at_ms,
  visitor,
  act,
  left(subject, 300) as subject,
  left(reason, 500) as reason,
  left(consequence, 500) as consequence,
  (extract(epoch from ended_at) * 1000)::float8 as ended_ms,
  left(outcome, 500) as outcome,
  left(error, 500) as error
from holdfast.audit
where $2::float8 is null
  or at > now() - $2::float8 * interval '1 ms'
order by at desc
limit $1

-- name: end
-- Records the outcome ($2) or the error ($3) of an act. Uses the index audit_pkey.
update holdfast.audit
set outcome = $2,
    error = $3,
    ended_at = clock_timestamp()
where id = $1::bigint
