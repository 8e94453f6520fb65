-- The audit: what visitors of the dashboard did.

-- name: begin
-- Writes down that somebody is about to do something ($1 who, $2 the act, $3 to what, $4 its parameters, $5 what it said
-- would happen, $6 why). Forgets some of what was done more than 90 days ago: whoever may not write the audit may not forget
-- it either. Logical replication copies the audit without its sequence, which only roles that write the audit may advance.
-- Relies on audit_at.
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
-- What was done last, at most so many ($1). Relies on audit_at.
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
order by at desc
limit $1

-- name: end
-- Writes down what became of it: what it said ($2), or what it failed of ($3). Relies on audit_pkey.
update holdfast.audit
set outcome = $2,
    error = $3,
    ended_at = clock_timestamp()
where id = $1::bigint
