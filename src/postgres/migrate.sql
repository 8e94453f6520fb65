-- Statements that apply one step of a migration. Only one process at a time runs them. They run in one transaction and do not block the fleet for
-- long.

-- name: set_timeouts
-- Replaces the timeouts that are set for the role, the database and the server. A migration has its own time limit, and large tables need
-- time. $1 limits the wait for the migration lock. $2 limits the time between two statements, so that the server ends the transaction of a
-- process that is frozen or unreachable, and releases the migration lock. Older servers lack some of these settings.
select set_config(name, case name when 'lock_timeout' then $1 when 'idle_in_transaction_session_timeout' then $2 else '0' end, true)
from pg_settings
where name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')

-- name: migration_lock
-- Acquires the migration lock. The process that holds the lock migrates. Other processes wait until the holder's transaction ends.
select pg_advisory_xact_lock($1::integer, 0)

-- name: is_schema_absent
-- Returns whether the schema is missing. This statement runs first, because "create schema if not exists" needs the privilege to create
-- schemas even if the schema exists.
select to_regnamespace($1) is null as absent

-- name: set_steps
-- Passes the SQL to run and the time limit to the `do` block below through settings, because a `do` block cannot have parameters.
select set_config('holdfast_migration.steps', $1, true), set_config('holdfast_migration.max_try', $2, true)

-- name: apply
-- Runs one step. A session that waits for a table lock blocks all later sessions. So the step waits for 200 ms, releases its locks, pauses
-- and tries again. Such a short wait also ends before PostgreSQL would cancel a worker because of a deadlock.
do $$
  declare
    deadline constant timestamptz := clock_timestamp() + current_setting('holdfast_migration.max_try')::interval;
  begin
    loop
      begin
        perform set_config('lock_timeout', '200ms', true);
        execute current_setting('holdfast_migration.steps');
        return;
      exception
        -- A deadlock may be detected, because deadlock_timeout may be shorter than 200 ms.
        when lock_not_available or deadlock_detected then
          if clock_timestamp() >= deadline then
            raise lock_not_available using message = sqlerrm;
          end if;
      end;
      perform pg_sleep(0.8);
    end loop;
  end
$$

-- name: blocking_session
-- Finds the oldest transaction that holds a lock on an object in the schema.
select
  pid,
  coalesce(nullif(application_name, ''), 'unnamed') as program,
  state,
  extract(epoch from clock_timestamp() - xact_start)::float8 * 1000 as "forMs"
from pg_stat_activity
where xact_start is not null
  and pid <> pg_backend_pid()
  and pid in (
    select pid
    from pg_locks
    join pg_class on pg_class.oid = relation
    where relnamespace = to_regnamespace($1)
      and granted
  )
order by xact_start
limit 1
