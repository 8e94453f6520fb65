-- How one migration is applied: by one at a time, in one transaction, and without the fleet having to wait for it.

-- name: no_timeouts
-- The timeouts of the role, the database or the server do not count here: a migration has a patience of its own, and large tables
-- take their time. An older server lacks some of them.
select set_config(name, '0', true)
from pg_settings
where name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')

-- name: migration_lock
-- Whoever has it migrates; the others wait until the end of its transaction.
select pg_advisory_xact_lock($1::integer, 0)

-- name: is_schema_absent
-- Asked first, because "if not exists" demands the right to create schemas even where one exists.
select to_regnamespace($1) is null as absent

-- name: set_steps
-- A block takes no parameters: what it is to run, and for how long it may try.
select set_config('holdfast_migration.steps', $1, true), set_config('holdfast_migration.max_try', $2, true)

-- name: apply
-- Whoever waits for a lock on a table holds up all who come later, so it waits briefly, gives back what it had, lets the fleet
-- through, and tries again. A wait so short also never becomes a deadlock of which a worker would be the victim.
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
        -- The server may look for deadlocks sooner than that.
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
-- The oldest transaction that has a lock on something in the schema.
select
  pid,
  coalesce(nullif(application_name, ''), 'unnamed') as program,
  state,
  extract(epoch from clock_timestamp() - xact_start)::float8 * 1000 as for_ms
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
