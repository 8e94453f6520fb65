-- The doctor's statements. None of them writes data. `notify` sends a notification on a channel that only the doctor listens to.

-- name: server
-- Role, database and address of the server.
select
  current_user::text as role,
  current_database()::text as database,
  split_part(version(), ' on ', 1) as version_text,
  host(inet_server_addr()) as address,
  inet_server_port() as port

-- name: settings
-- A new session's settings, in pg_settings's units, and their source.
select name, setting, source
from pg_settings
where name in (
  'autovacuum', 'default_transaction_read_only', 'idle_in_transaction_session_timeout', 'idle_session_timeout', 'lock_timeout',
  'statement_timeout', 'synchronous_commit', 'track_counts', 'transaction_timeout'
)

-- name: lock_table_use
-- Number of entries in the shared lock table, and the table's capacity.
select
  (
    select count(*)
    from (
      select distinct locktype, database, relation, page, tuple, virtualxid, transactionid, classid, objid, objsubid
      from pg_locks
      where not fastpath
        and mode <> 'SIReadLock'
    ) as locked
  )::integer as used,
  (select count(*) from pg_locks where locktype = 'advisory' and granted)::integer as advisory,
  current_setting('max_locks_per_transaction')::integer as each,
  current_setting('max_locks_per_transaction')::integer
    * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) as budget

-- name: connections
-- Connections and connection limits: for the server, for this database, and for each role that the fleet uses.
with sessions as materialized (
  select datname, usename, application_name like 'holdfast%' as is_ours
  from pg_stat_activity
  where backend_type = 'client backend'
)
select
  'server' as limited,
  null as name,
  (select count(*) from sessions)::integer as used,
  (select count(*) from sessions where is_ours)::integer as ours,
  current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
    - coalesce(current_setting('reserved_connections', true)::integer, 0) as max
union all
select
  'database',
  datname,
  (select count(*) from sessions where sessions.datname = pg_database.datname)::integer,
  (select count(*) from sessions where sessions.datname = pg_database.datname and is_ours)::integer,
  datconnlimit
from pg_database
where datname = current_database()
  and datconnlimit > 0
union all
select 'role', rolname, count(*)::integer, (count(*) filter (where is_ours))::integer, rolconnlimit
from sessions
join pg_roles on rolname = usename
where rolconnlimit > 0
group by rolname, rolconnlimit
having bool_or(datname = current_database() and is_ours)

-- name: rights
-- Rights in the schema ($1, quoted) that an instance needs and the role lacks. Partitions are accessed through their parent. Instances only
-- read the migration tables, and they do not write to the audit.
select 'usage' as lacks, 'schema' as kind, $1::text as thing
where not has_schema_privilege(to_regnamespace($1::text), 'usage')
union all
select lacks, case relkind when 'S' then 'sequence' when 'v' then 'view' else 'table' end, relname
from pg_class
cross join lateral unnest(
  case
    when relname = 'audit_number' then array[]::text[]
    when relkind = 'S' then array['usage', 'select', 'update']
    when relkind = 'v' or relname in ('audit', 'migration', 'applied_functions') then array['select']
    else array['select', 'insert', 'update', 'delete']
  end
) as lacks
where relnamespace = to_regnamespace($1::text)
  and relkind in ('r', 'p', 'v', 'S')
  and not relispartition
  and not case when relkind = 'S' then has_sequence_privilege(pg_class.oid, lacks) else has_table_privilege(pg_class.oid, lacks) end
union all
select 'execute', 'function', proname
from pg_proc
where pronamespace = to_regnamespace($1::text)
  and not has_function_privilege(oid, 'execute')
order by 2, 3, 1

-- name: ownership
-- Whether the role may change or create the schema ($1, quoted), and who owns the schema and the database.
select
  coalesce(
    (select pg_has_role(nspowner, 'usage') from pg_namespace where oid = to_regnamespace($1::text)),
    has_database_privilege(current_database(), 'create')
  ) as may_migrate,
  (select pg_get_userbyid(nspowner)::text from pg_namespace where oid = to_regnamespace($1::text)) as owner,
  (select pg_get_userbyid(datdba)::text from pg_database where datname = current_database()) as database_owner

-- name: other_roles
-- Fleet roles whose sessions the current role is not allowed to end.
select distinct usename::text as role, coalesce(rolsuper, false) as is_superuser
from pg_stat_activity
left join pg_roles on rolname = usename
where datname = current_database()
  and application_name like 'holdfast %'
  and application_name <> 'holdfast command line'
  and not (select rolsuper from pg_roles where rolname = current_user)
  and (coalesce(rolsuper, false) or not (pg_has_role(usename, 'usage') or pg_has_role('pg_signal_backend', 'usage')))
order by 1

-- name: search_path
-- A pool session's search path. This statement itself runs with that search path, so it qualifies every name.
select pg_catalog.current_schemas(true)::pg_catalog.text[] as schemas

-- name: untrusted_schemas
-- Untrusted schemas on a pool session's search path ($2). A schema is untrusted if it comes before pg_catalog, or if an untrusted role can
-- create objects in it. Trusted roles are the current role, superusers, the database owner, and the owner of our schema ($1, quoted). An
-- empty creator means all roles.
with searched as (
  select schema, place, array_position($2::text[], 'pg_catalog') as catalog_at
  from unnest($2::text[]) with ordinality as s (schema, place)
),
trusted as (
  select oid
  from pg_roles
  where rolsuper
    or rolname in (current_user, 'pg_database_owner')
    or oid = (select datdba from pg_database where datname = current_database())
    or oid = (select nspowner from pg_namespace where oid = to_regnamespace($1::text))
)
select
  schema::text as schema,
  array(
    select distinct coalesce(rolname::text, '')
    from aclexplode(coalesce(nspacl, acldefault('n', nspowner))) as a
    left join pg_roles on pg_roles.oid = grantee
    where privilege_type = 'CREATE'
      and grantee not in (select oid from trusted)
    order by 1
  ) as creators,
  place < catalog_at as is_before_catalog
from searched
join pg_namespace on nspname = schema
where schema <> 'pg_catalog'
  and nspname !~ '^pg_temp_'
  and (
    place < catalog_at
    or exists (
      select
      from aclexplode(coalesce(nspacl, acldefault('n', nspowner)))
      where privilege_type = 'CREATE'
        and grantee not in (select oid from trusted)
    )
  )
order by place

-- name: hidden_sessions
-- Number of sessions in this database that the role is not allowed to inspect.
select count(*)::integer as sessions
from pg_stat_activity
where datname = current_database()
  and query = '<insufficient privilege>'

-- name: transactions
-- Transactions in this database that have been open for more than $1 ms and prevent vacuum from removing dead rows.
select
  pid,
  usename::text as role,
  application_name as application,
  host(client_addr) as address,
  state,
  to_char(xact_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as since,
  (extract(epoch from clock_timestamp() - xact_start) * 1000)::float8 as for_ms,
  left(regexp_replace(query, '\s+', ' ', 'g'), 100) as query,
  backend_start::text as started
from pg_stat_activity
where datname = current_database()
  and backend_type = 'client backend'
  and pid <> pg_backend_pid()
  and xact_start < clock_timestamp() - make_interval(secs => $1::float8 / 1000)
  and (backend_xmin is not null or backend_xid is not null)
order by xact_start

-- name: prepared
-- Prepared transactions in this database that are older than $1 ms.
select
  gid,
  owner::text as role,
  to_char(prepared at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as since,
  (extract(epoch from clock_timestamp() - prepared) * 1000)::float8 as for_ms
from pg_prepared_xacts
where database = current_database()
  and prepared < clock_timestamp() - make_interval(secs => $1::float8 / 1000)
order by prepared

-- name: slots
-- Inactive replication slots that prevent vacuum from removing dead rows. inactive_since exists since PostgreSQL 17.
select
  slot_name::text as slot,
  age(xmin)::integer as transactions,
  to_jsonb(pg_replication_slots) ->> 'inactive_since' as since,
  pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)) as wal
from pg_replication_slots
where xmin is not null
  and not active
order by age(xmin) desc

-- name: dead_rows
-- Tables in the schema ($1) that have more dead rows than live rows and were not vacuumed in the last $2 ms.
select
  relname::text as table,
  n_dead_tup::float8 as dead,
  n_live_tup::float8 as living,
  to_char(greatest(last_vacuum, last_autovacuum) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as vacuumed,
  pg_size_pretty(pg_total_relation_size(relid)) as size
from pg_stat_all_tables
where schemaname = $1
  and n_dead_tup > 20000 + n_live_tup
  and coalesce(greatest(last_vacuum, last_autovacuum), '-infinity') < clock_timestamp() - make_interval(secs => $2::float8 / 1000)
order by n_dead_tup desc

-- name: notification_queue
-- Fill level of the notification queue, and the oldest transaction, which may prevent PostgreSQL from emptying the queue.
select
  pg_notification_queue_usage()::float8 as used,
  oldest.*
from (select) as always
left join (
  select
    pid,
    datname::text as database,
    application_name as application,
    usename::text as role,
    state,
    (extract(epoch from clock_timestamp() - xact_start) * 1000)::float8 as for_ms,
    backend_start::text as started
  from pg_stat_activity
  where backend_type = 'client backend'
    and pid <> pg_backend_pid()
    and xact_start is not null
  order by xact_start
  limit 1
) as oldest on true

-- name: notify
select pg_notify($1::text, 'holdfast doctor')::text as sent

-- name: standbys
-- Standbys of this server and their sync state. The states are null if the role is not allowed to see them.
select application_name as name, state, sync_state
from pg_stat_replication
order by 1

-- name: clock
select (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms

-- name: catalog
-- Tables, columns, indexes, functions, views and sequences in the schema ($1, quoted). An index that is being created counts as valid.
select 'table' as kind, relname::text as name, null as of, array_to_string(reloptions, ',') as detail, true as is_valid
from pg_class
where relnamespace = to_regnamespace($1::text)
  and relkind in ('r', 'p')
union all
select 'column', attname, relname, null, true
from pg_class
join pg_attribute on attrelid = pg_class.oid
where relnamespace = to_regnamespace($1::text)
  and relkind in ('r', 'p')
  and attnum > 0
  and not attisdropped
union all
select
  'index',
  i.relname,
  t.relname,
  null,
  indisvalid and indisready or exists (select from pg_stat_progress_create_index where index_relid = indexrelid)
from pg_index
join pg_class i on i.oid = indexrelid
join pg_class t on t.oid = indrelid
where i.relnamespace = to_regnamespace($1::text)
union all
select 'function', proname, null, prosrc, true
from pg_proc
where pronamespace = to_regnamespace($1::text)
union all
select case relkind when 'v' then 'view' else 'sequence' end, relname, null, null, true
from pg_class
where relnamespace = to_regnamespace($1::text)
  and relkind in ('S', 'v')

-- name: orphaned_locks
-- Sessions that have been idle outside a transaction for more than $1 ms, hold Holdfast locks (on registered names or in internal lock
-- classes), and do not belong to a live instance. Behind a pooler, this can be the session that runs this statement.
with advisory as materialized (
  select classid, objid, objsubid, pid
  from pg_locks
  where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())
    and granted
),
vouched as materialized (
  select objid::integer as session
  from advisory
  where objsubid = 2
    and classid = (holdfast.session_class()::bigint & 4294967295)::oid
),
alive as materialized (
  select id
  from holdfast.instance
  where session in (select session from vouched)
    or expires_at > clock_timestamp()
),
ours as (
  select pid, coalesce(label, 'an internal lock') as label
  from advisory
  left join holdfast.name on objsubid = 1 and key = (classid::bigint << 32) | objid::bigint
  where label is not null
    or objsubid = 2
      and (classid::bigint # (holdfast.session_class()::bigint & 4294967295)) < 64
)
select
  pid,
  usename::text as role,
  application_name as application,
  host(client_addr) as address,
  coalesce(
    (select name from holdfast.instance_name where instance_name.id = substr(application_name, 10)), substr(application_name, 10)
  ) as instance,
  application_name ~ '^holdfast [0-9a-f]{12}$' as is_of_instance,
  client_addr is not distinct from inet_client_addr() as is_from_here,
  (extract(epoch from clock_timestamp() - state_change) * 1000)::float8 as for_ms,
  backend_start::text as started,
  count(*)::integer as locks,
  json_agg(distinct label) as labels
from ours
join pg_stat_activity using (pid)
where (pid = pg_backend_pid() or state = 'idle' and state_change < clock_timestamp() - make_interval(secs => $1::float8 / 1000))
  and not exists (select from alive where application_name = 'holdfast ' || id)
group by pid, usename, application_name, client_addr, state_change, backend_start
order by state_change

-- name: unserved_jobs
-- Job kinds in the queues ($1) with jobs that have been ready for more than $2 ms while no worker claims that kind (see job_ready_sample).
with late as materialized (
  select
    queue,
    kind,
    count(*)::integer as jobs,
    max(extract(epoch from clock_timestamp() - enqueued_at) * 1000)::float8 as for_ms
  from holdfast.job_ready_sample($1::text::bigint[])
  where enqueued_at < clock_timestamp() - make_interval(secs => $2::float8 / 1000)
  group by queue, kind
)
select late.queue::text as queue, late.kind, late.jobs, late.for_ms, claims.unserved
from (select array_agg(queue) as queues, array_agg(kind) as kinds from late) as pairs
cross join lateral holdfast.job_unserved(pairs.queues, pairs.kinds) as claims
join late on late.queue = claims.queue and late.kind = claims.kind
order by late.for_ms desc

-- name: orphaned_schedules
-- Active schedules that no live instance defines.
select
  namespace,
  name,
  (extract(epoch from clock_timestamp() - next_at) * 1000)::float8 as late_ms
from holdfast.schedule
where job_head is null
  and next_at is not null
  and paused_at is null
  and not exists (
    select
    from holdfast.schedule_member
    where schedule_member.schedule = schedule.key
      and holdfast.is_present(session)
  )
order by next_at

-- name: unplanned_schedules
-- Stored schedules whose rule no instance has put into force. Uses the index schedule_stored_changed.
select namespace, name, coalesce(override, next_rule, rule) as rule
from holdfast.schedule
where changed_at is not null
order by namespace, changed_at
limit 10000

-- name: fix_progress
-- Progress of `create index` and `vacuum` in the schema ($1, quoted).
select work.phase, work.unit, work.done::text as done, work.total::text as total
from (
  select
    pid, relid, phase,
    case when phase like 'waiting%' then 'sessions' when tuples_total > 0 then 'rows' else 'blocks' end as unit,
    case when phase like 'waiting%' then lockers_done when tuples_total > 0 then tuples_done else blocks_done end as done,
    case when phase like 'waiting%' then lockers_total when tuples_total > 0 then tuples_total else blocks_total end as total
  from pg_stat_progress_create_index
  where datname = current_database()
  union all
  select pid, relid, phase, 'blocks', heap_blks_scanned, heap_blks_total
  from pg_stat_progress_vacuum
  where datname = current_database()
) as work
join pg_stat_activity as session on session.pid = work.pid and session.backend_type = 'client backend'
join pg_class as relation on relation.oid = work.relid and relation.relnamespace = to_regnamespace($1::text)
limit 1

-- name: server_generation
-- Whether the single row of server_generation exists.
select exists (select from holdfast.server_generation) as there

-- name: sequences
-- Sequences that are behind their tables: a table contains a value that the sequence has not reached yet.
select relname::text as sequence, reached::text as reached, largest::text as largest
from holdfast.sequence_positions()
join pg_class on pg_class.oid = sequence
where largest > reached
order by relname
