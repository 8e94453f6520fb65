-- What visitors of the dashboard did. Nothing here writes.

-- name: audit
-- The latest so many ($1). Relies on audit_pkey.
select
  id::text,
  (extract(epoch from at) * 1000)::float8 as at_ms,
  visitor,
  act,
  left(subject, 300) as subject,
  left(because, 500) as because,
  left(consequence, 500) as consequence,
  (extract(epoch from ended_at) * 1000)::float8 as ended_ms,
  left(outcome, 500) as outcome,
  left(error, 500) as error
from holdfast.audit
order by id desc
limit $1::integer
