-- This function uses PL/pgSQL, because each PL/pgSQL statement takes a new snapshot. The calling statement took its snapshot before the lock
-- on the key was granted, and would miss a lease that was committed in between. The function runs for every lock and uses qualified names,
-- because setting search_path would make it 10 % slower.
create or replace function holdfast.is_leased(key bigint) returns boolean
  language plpgsql
  as $$
  declare
    checked_at timestamptz;
  begin
    perform
    from holdfast.lease
    where lease.key operator(pg_catalog.=) is_leased.key;
    if not found then
      return false;
    end if;
    checked_at := holdfast.expiry_clock();
    return exists (
      select
      from holdfast.lease
      where lease.key operator(pg_catalog.=) is_leased.key
        and expires_at operator(pg_catalog.>) checked_at
    );
  end
  $$;
comment on function holdfast.is_leased(bigint) is
  'Returns whether a key is leased. Called directly after a lock on the key has been granted.';

create or replace function holdfast.leased_keys(keys bigint[]) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    checked_at constant timestamptz := holdfast.expiry_clock();
  begin
    return array(
      select key
      from holdfast.lease
      where key = any(keys)
        and expires_at > checked_at
    );
  end
  $$;
comment on function holdfast.leased_keys(bigint[]) is 'Returns the leased keys among the given keys. This is the batch variant of is_leased().';

-- For locks.inTransaction. The function is in this room because it reads the leases. The exception handler undoes a part of the attempts: if a name turns out to be busy or leased, PostgreSQL releases the locks that the function
-- has already acquired. The caller's transaction would otherwise keep these locks until it ends.
create or replace function holdfast.try_transaction_locks(keys bigint[], shared boolean) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    key bigint;
  begin
    foreach key in array keys loop
      if not (case when shared then pg_try_advisory_xact_lock_shared(key) else pg_try_advisory_xact_lock(key) end) then
        raise lock_not_available;
      end if;
    end loop;
    if holdfast.leased_keys(keys) <> '{}' then
      raise lock_not_available;
    end if;
    return true;
  exception
    when lock_not_available then
      return false;
  end
  $$;
comment on function holdfast.try_transaction_locks(bigint[], boolean) is
  'Locks the keys, in their order, for the current transaction. Returns false, and locks nothing, if one of the keys is locked or leased.';

create or replace function holdfast.flush_leases() returns void
  language plpgsql
  as $$
  begin
    if current_setting('synchronous_commit') = 'off' then
      perform set_config('synchronous_commit', 'on', true);
    end if;
  end
  $$;
comment on function holdfast.flush_leases() is
  'Enables synchronous_commit for this transaction. If a crash lost a lease, the name could be granted too early.';

-- The transaction that decides on a name holds the advisory lock of the name's key. A session lock on the name therefore blocks the grant,
-- and fences are assigned in the order of the grants. The function does not wait for a lock: if another transaction is deciding on a name,
-- the name counts as taken.
create or replace function holdfast.acquire_leases(
    keys bigint[], tokens text[], ttls_ms integer[], min_holds_ms bigint[], for_instance text, for_instance_name text
  )
  returns table (grace_over boolean, granted_fence bigint, is_fresh boolean, free_in_ms float8, lease_has_waiters boolean)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform holdfast.flush_leases();
    if not holdfast.grace_is_over() then
      return query select false, null::bigint, false, null::float8, null::boolean from unnest(keys);
      return;
    end if;
    return query
    with asked as materialized (
      select key, token, ttl_ms, min_hold_ms, place
      from unnest(keys, tokens, ttls_ms, min_holds_ms) with ordinality as a (key, token, ttl_ms, min_hold_ms, place)
      order by key
    ),
    decided as materialized (
      select *, pg_try_advisory_xact_lock(key) as by_us
      from asked
    ),
    drawn as materialized (
      select *, case when by_us then nextval('holdfast.fence') end as fence
      from decided
    ),
    granted as (
      insert into holdfast.lease as held (key, token, instance, fence, ttl_ms, min_hold_ms, granted_at, expires_at, instance_name)
      select
        key, token, for_instance, fence, ttl_ms, min_hold_ms, clock_timestamp(),
        clock_timestamp() + make_interval(secs => ttl_ms / 1000.0), for_instance_name
      from drawn
      where by_us
      on conflict (key) do update
      set token = excluded.token,
          instance = excluded.instance,
          instance_name = excluded.instance_name,
          -- Before the expiry, a request with the same token extends the existing lease, which keeps its fence.
          fence = case when held.expires_at > clock_timestamp() then held.fence else excluded.fence end,
          granted_at = case when held.expires_at > clock_timestamp() then held.granted_at else excluded.granted_at end,
          min_hold_ms = case when held.expires_at > clock_timestamp() then greatest(held.min_hold_ms, excluded.min_hold_ms) else excluded.min_hold_ms end,
          ttl_ms = excluded.ttl_ms,
          expires_at = greatest(held.expires_at, excluded.expires_at),
          has_waiters = held.has_waiters and held.expires_at > clock_timestamp(),
          has_co_holders = (held.has_co_holders or held.instance <> excluded.instance) and held.expires_at > clock_timestamp()
      where held.expires_at <= clock_timestamp()
        or held.token = excluded.token
      returning key, fence
    )
    select
      true,
      granted.fence,
      coalesce(granted.fence = drawn.fence, false),
      -- Looks up each refused name separately, because the planner would read the whole table for a join.
      case when granted.fence is null then (
        select (extract(epoch from lease.expires_at - clock_timestamp()) * 1000)::float8
        from holdfast.lease
        where lease.key = drawn.key
      ) end,
      case when granted.fence is null then (select lease.has_waiters from holdfast.lease where lease.key = drawn.key) end
    from drawn
    left join granted using (key)
    order by drawn.place;
  end
  $$;
comment on function holdfast.acquire_leases(bigint[], text[], integer[], bigint[], text, text) is
  'Grants the free names. For each name, in order, returns either the fence and whether this call granted it, or the time until the expiry.';

-- Most requests are for one free name. This function decides them in one statement, which reads the clock after the row is locked and draws
-- the fence after the lock on the key has been granted. Only acquire_leases() decides all other requests, so this function repeats no rule
-- about renewals, minimum holds or refusals.
create or replace function holdfast.acquire_lease(
    for_key bigint, for_token text, for_ttl_ms integer, for_min_hold_ms bigint, for_instance text, for_instance_name text,
    out grace_over boolean, out granted_fence bigint, out is_fresh boolean, out free_in_ms float8, out lease_has_waiters boolean
  )
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- A standby cannot plan the statement. acquire_leases() then fails with the reason.
    if not pg_is_in_recovery() then
      perform holdfast.flush_leases();
      insert into holdfast.lease as held (key, token, instance, fence, ttl_ms, min_hold_ms, granted_at, expires_at, instance_name)
      select
        for_key, for_token, for_instance, nextval('holdfast.fence'), for_ttl_ms, for_min_hold_ms, clock_timestamp(),
        clock_timestamp() + make_interval(secs => for_ttl_ms / 1000.0), for_instance_name
      from holdfast.settled_server
      where pg_try_advisory_xact_lock(for_key)
      on conflict (key) do update
      set token = excluded.token,
          instance = excluded.instance,
          instance_name = excluded.instance_name,
          fence = excluded.fence,
          granted_at = excluded.granted_at,
          min_hold_ms = excluded.min_hold_ms,
          ttl_ms = excluded.ttl_ms,
          expires_at = excluded.expires_at,
          has_waiters = false,
          has_co_holders = false
      where held.expires_at <= clock_timestamp()
      returning true, fence, true into grace_over, granted_fence, is_fresh;
      if found then
        return;
      end if;
    end if;
    select * into grace_over, granted_fence, is_fresh, free_in_ms, lease_has_waiters
    from holdfast.acquire_leases(
      array[for_key], array[for_token], array[for_ttl_ms], array[for_min_hold_ms], for_instance, for_instance_name
    );
  end
  $$;
comment on function holdfast.acquire_lease(bigint, text, integer, bigint, text, text) is
  'Grants one name if the name is free. Otherwise calls acquire_leases().';

-- The row is deleted unless the name stays taken until its minimum hold has passed. Waiters are notified only if the row is deleted. If a
-- fence is given, the function releases only that grant, because the same token may have a newer grant. Other holders with the same token are
-- notified if the lease was released by its token alone, or if another instance acquired it with that token.
create or replace function holdfast.release_leases(keys bigint[], tokens text[], fences bigint[], channel text)
  returns table (released_key bigint, released_token text, waiters_notified text, holders_notified text)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return query
    with rows as materialized (
      select
        lease.key,
        lease.token,
        lease.has_waiters,
        kept.until as kept_until,
        kept.until > clock_timestamp() as is_kept,
        lease.has_co_holders or asked.fence is null as notify_holders
      from unnest(keys, tokens, fences) as asked (key, token, fence)
      join holdfast.lease
        on lease.key = asked.key
        and lease.token = asked.token
        and lease.fence = coalesce(asked.fence, lease.fence)
      cross join lateral (select lease.granted_at + make_interval(secs => lease.min_hold_ms / 1000.0) as until) as kept
      order by lease.key
      for update of lease
    ),
    removed as (
      delete from holdfast.lease
      using rows
      where lease.key = rows.key
        and not is_kept
    ),
    kept as (
      update holdfast.lease
      set token = '',
          has_waiters = false,
          has_co_holders = false,
          expires_at = kept_until
      from rows
      where lease.key = rows.key
        and is_kept
    )
    select
      key,
      token,
      case when has_waiters and not is_kept then pg_notify(channel, 'lease-released ' || key)::text end as waiters_notified,
      case when notify_holders then pg_notify(channel, 'lease-expired ' || key)::text end as holders_notified
    from rows;
  end
  $$;
comment on function holdfast.release_leases(bigint[], text[], bigint[], text) is
  'Releases leases. Returns each released lease''s key and token. Without a fence, matches the token alone.';

-- Most releases give a fence, notify no call, and end a minimum hold of 0. This function performs only those. release_leases() performs all
-- other releases.
create or replace function holdfast.release_lease(for_key bigint, for_token text, for_fence bigint, channel text) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    delete from holdfast.lease
    where key = for_key
      and token = for_token
      and fence = for_fence
      and min_hold_ms = 0
      and not has_waiters
      and not has_co_holders;
    return found
      or exists (select from holdfast.release_leases(array[for_key], array[for_token], array[for_fence], channel));
  end
  $$;
comment on function holdfast.release_lease(bigint, text, bigint, text) is
  'Releases one lease. Returns whether the token held it. Calls release_leases() if the name has a minimum hold, or if a call must be notified.';

create or replace function holdfast.guard_lease(key bigint, fence bigint) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform holdfast.guard_key(guard_lease.key, guard_lease.fence);
    if not exists (
      select
      from holdfast.lease
      where lease.key = guard_lease.key
        and lease.fence = guard_lease.fence
        and lease.expires_at > clock_timestamp()
    ) then
      raise exception 'The fence % of key % is stale: the lease has expired or belongs to a later holder', guard_lease.fence, guard_lease.key
        using errcode = 'HF001';
    end if;
  end
  $$;
comment on function holdfast.guard_lease(bigint, bigint) is
  'Raises HF001 if the lease on a key has expired or belongs to a later holder. Call this function in the transaction that makes the '
  'guarded writes.';

create or replace function holdfast.leases_largest_numbers() returns table (sequence regclass, largest bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select 'holdfast.fence'::regclass, max(fence) from holdfast.lease
  $$;
comment on function holdfast.leases_largest_numbers() is
  'Returns the largest number from each sequence in this module''s tables. See sequence_positions().';

create or replace function holdfast.lock_holders(keys bigint[]) returns table (
    key text, instance text, name text, host text, os_pid integer, application text, pid integer, held_ms double precision
  )
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with advisory as materialized (
      select
        pid,
        case objsubid when 1 then (classid::bigint << 32) | objid::bigint end as key,
        case objsubid when 2 then objid::integer end as session
      from pg_locks
      where locktype = 'advisory'
        and granted
        and database = (select oid from pg_database where datname = current_database())
        and (
          objsubid = 1 and ((classid::bigint << 32) | objid::bigint) = any(keys)
          or objsubid = 2 and classid = (holdfast.session_class()::bigint & 4294967295)::oid
        )
    ),
    locked as materialized (
      select
        advisory.key,
        advisory.pid,
        activity.application_name as application,
        case when activity.application_name like 'holdfast %' then substr(activity.application_name, 10) end as instance,
        (select min(numbered.session) from advisory as numbered where numbered.pid = advisory.pid) as session
      from advisory
      join pg_stat_activity as activity using (pid)
      where advisory.key is not null
    )
    select distinct on (key)
      key::text as key, instance, name, host, os_pid, application, pid,
      (extract(epoch from clock_timestamp() - since) * 1000)::float8 as held_ms
    from (
      select locked.key, locked.instance, known.name, known.host, known.os_pid, locked.application, locked.pid, hold.since
      from locked
      left join holdfast.instance_name as known on known.id = locked.instance
      left join holdfast.hold on hold.session = locked.session and hold.key = locked.key
      union all
      select
        lease.key, lease.instance, coalesce(known.name, lease.instance_name), known.host, known.os_pid, null, null, lease.granted_at
      from holdfast.lease
      left join holdfast.instance_name as known on known.id = lease.instance
      where lease.key = any(keys)
        and lease.token <> ''
        and lease.expires_at > clock_timestamp()
    ) as holder
    order by key, since nulls last
  $$;
comment on function holdfast.lock_holders(bigint[]) is
  'Returns the holder of each key, as a lock or as a lease. For several holders, returns the holder with the earliest known start. The start of a lock is known after about 3 s.';
