-- name: announce
-- Records the leader after it has been granted the name, and again when its epoch changes. Returns whether the leader must yield to a
-- preferred candidate. Never replaces a later term. Uses the indexes candidate_pkey and election_pkey.
with candidates as materialized (
  select session
  from holdfast.candidate
  where namespace = $1
    and name = $2
    and session <> $4::integer
    and not $6::boolean
),
preferred as materialized (
  select exists (select from candidates where holdfast.is_present(session)) as present
),
written as (
  insert into holdfast.election as known (namespace, name, instance, session, term, since)
  select $1, $2, $3, $4::integer, $5::bigint, clock_timestamp()
  from preferred
  where not present
  on conflict (namespace, name) do update
  set instance = excluded.instance,
      session = excluded.session,
      term = excluded.term,
      since = case when known.term = excluded.term then known.since else excluded.since end
  where known.term <= excluded.term
  returning term
),
notified as materialized (
  select pg_notify($7, $8)
  from written
)
select preferred.present as yields, (select count(*) from notified) as notified
from preferred

-- name: resign
-- Records the end of a term. Does not change a later term's row. Uses the index election_pkey.
with written as (
  update holdfast.election
  set session = null
  where namespace = $1
    and name = $2
    and term = $3::bigint
  returning term
)
select pg_notify($4, $5)
from written

-- name: enroll
-- Records a preferred candidate and notifies the other candidates, which then yield. Deletes candidates that are no longer present.
with candidates as materialized (
  select session
  from holdfast.candidate
  where namespace = $1
    and name = $2
    and session <> $3::integer
),
gone as materialized (
  select session
  from candidates
  where not holdfast.is_present(session)
),
removed as (
  delete from holdfast.candidate
  where namespace = $1
    and name = $2
    and session in (select session from gone)
),
written as (
  insert into holdfast.candidate (namespace, name, session)
  values ($1, $2, $3::integer)
  on conflict do nothing
)
select pg_notify($4, $5)

-- name: withdraw
-- Deletes a preferred candidate.
delete from holdfast.candidate
where namespace = $1
  and name = $2
  and session = $3::integer

-- name: read_elections
-- Reads each election's leader, whether a preferred candidate other than session $3 is present, and whether session $3 has a row as a
-- preferred candidate. Returns one row for each name. Uses the indexes election_pkey, candidate_pkey and instance_name_pkey.
with announced as materialized (
  select name, instance, session, term, since
  from holdfast.election
  where namespace = $1
    and name = any($2::text[])
    and session is not null
),
leads as materialized (
  select *
  from announced
  where holdfast.is_present(session)
),
candidates as materialized (
  select name, session
  from holdfast.candidate
  where namespace = $1
    and name = any($2::text[])
),
others as materialized (
  select name, session
  from candidates
  where session <> $3::integer
),
preferred as materialized (
  select distinct name
  from others
  where holdfast.is_present(session)
)
select
  asked.name,
  leads.instance,
  instance_name.name as instance_name,
  leads.term::text,
  (extract(epoch from leads.since) * 1000)::float8 as since_ms,
  preferred.name is not null as preferred,
  exists (select from candidates where candidates.name = asked.name and session = $3::integer) as is_enrolled
from unnest($2::text[]) as asked (name)
left join leads on leads.name = asked.name
left join holdfast.instance_name on instance_name.id = leads.instance
left join preferred on preferred.name = asked.name
