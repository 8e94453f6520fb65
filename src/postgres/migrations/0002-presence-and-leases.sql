-- Presence without a session, and leases: what works through any pooler.

alter table holdfast.instance
  alter column backend_pid drop not null,
  add column expires_at timestamptz,
  add column node text,
  add column state text not null default 'open' check (state in ('open', 'asked', 'draining', 'drained')),
  add column drain_within_ms bigint,
  add column taken integer not null default 0;
comment on column holdfast.instance.backend_pid is 'The server process of its anchor; null without one.';
comment on column holdfast.instance.expires_at is
  'Without an anchor: until when it is present, unless it renews. Null with one: then the lock on its session''s number tells.';
comment on column holdfast.instance.node is 'The version of Node.js that it runs on.';
comment on column holdfast.instance.state is
  'open: takes part. asked: somebody wants it to drain. draining: it takes no new work. drained: nothing of its work is left; it lives until its process ends.';
comment on column holdfast.instance.drain_within_ms is 'How long what runs may take to come to its end, as whoever asked said.';
comment on column holdfast.instance.taken is
  'How many times an operator has taken something from it. Without an anchor it hears of it by reading this.';
create index instance_session on holdfast.instance (session);

create table holdfast.lease (
  key bigint primary key,
  token text not null,
  instance text not null,
  fence bigint not null,
  ttl_ms integer not null,
  hold_ms bigint not null,
  granted_at timestamptz not null,
  expires_at timestamptz not null,
  wanted boolean not null default false,
  joined boolean not null default false
) with (fillfactor = 50);
comment on table holdfast.lease is
  'Leases: who has a name, until when, on the clock of this database. A row whose time is over is a name that is free.';
comment on column holdfast.lease.key is 'The key of the name.';
comment on column holdfast.lease.token is 'Drawn for each acquisition; only who knows it can renew or release. Empty when an operator has expired it.';
comment on column holdfast.lease.instance is 'The instance that holds it.';
comment on column holdfast.lease.fence is 'The fence of the grant.';
comment on column holdfast.lease.ttl_ms is 'How long it lasts without a renewal.';
comment on column holdfast.lease.hold_ms is 'How long the name stays taken, counted from the grant, also when it is released before.';
comment on column holdfast.lease.granted_at is 'When it was granted.';
comment on column holdfast.lease.expires_at is 'From then on it is free.';
comment on column holdfast.lease.wanted is 'Somebody waits for it, and wants to be told when it is released.';
comment on column holdfast.lease.joined is
  'Another instance has acquired it with the same token: whoever relies on it is told when it is released.';
create index lease_expires_at on holdfast.lease (expires_at);

create function holdfast.noticed_generation() returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- A standby has no unlogged tables, and refuses the query below with an error of its own. Without a generation the caller tries to
    -- begin one, which fails as a write does there.
    if pg_is_in_recovery() then
      return null;
    end if;
    return (
      select fencing.generation
      from holdfast.fencing
      where started_at = pg_postmaster_start_time()
        and written_by = xmin
        -- The path of a file names the database, and takes no look at pg_database, which may be large.
        and database = split_part(pg_relation_filepath('holdfast.fencing'), '/', -2)::oid
        and fence_floor <= (select last_value from holdfast.fence)
        and exists (select from holdfast.crash_witness)
    );
  end
  $$;
comment on function holdfast.noticed_generation() is
  'The generation of the server (see fencing). Null until advance_fence() has noticed a restart, a crash, a failover or a restore: until then the sequences may be behind.';

create function holdfast.generation_began() returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
  -- Part of the heartbeat, which must not wait for somebody who has locked the table.
  set lock_timeout = '200ms'
  as $$
  begin
    return (select began_at::text from holdfast.fencing where holdfast.noticed_generation() is not null);
  end
  $$;
comment on function holdfast.generation_began() is
  'When the generation was noticed; null until then. A session sees it change only when the tables were restored while it lived.';

create function holdfast.generation() returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    noticed integer := holdfast.noticed_generation();
  begin
    if noticed is null then
      perform holdfast.advance_fence();
      noticed := (select fencing.generation from holdfast.fencing);
    end if;
    return noticed;
  end
  $$;
comment on function holdfast.generation() is
  'The generation of the server (see fencing), also when nobody has noticed its beginning before.';

create function holdfast.is_settled_in(generation integer) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  strict
  as $$
  begin
    return not exists (
      select
      from holdfast.fencing
      join holdfast.instance on instance.generation < is_settled_in.generation
      where clock_timestamp() < fencing.began_at + make_interval(secs => instance.expiry_ms / 1000.0)
    );
  end
  $$;
comment on function holdfast.is_settled_in(integer) is
  'The same as is_settled() for a generation that is known already. For transactions of the user, where to notice one would lock a row that everybody needs.';

create function holdfast.is_settled() returns boolean
  language plpgsql
  as $$
  begin
    return holdfast.is_settled_in(holdfast.generation());
  end
  $$;
comment on function holdfast.is_settled() is
  'False for a while after a restart, crash or failover: somebody who was cut off then may still believe in what is gone. Ask it before any grant, and draw the fence after it.';

-- What a statement sees may be older than the moment in which it looks at the clock: on a busy server by so long that what
-- it sees as over was renewed, and the renewal answered, in between. So the clock is asked first: what is over then, as
-- seen by a statement that begins later, has been renewed in time by nobody who heard of it. Where the transaction sees the
-- past, its beginning is the moment. In a statement of its own in PL/pgSQL, before the one that looks.
create function holdfast.moment() returns timestamptz
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return case current_setting('transaction_isolation') when 'read committed' then clock_timestamp() else now() end;
  end
  $$;
comment on function holdfast.moment() is
  'The time, to judge by what the next statement sees whether something is over.';

create function holdfast.is_present(session integer) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moment timestamptz;
  begin
    if not pg_try_advisory_xact_lock_shared(holdfast.session_class(), session) then
      return true;
    end if;
    moment := holdfast.moment();
    return exists (
      select
      from holdfast.instance
      where instance.session = is_present.session
        and expires_at > moment
    );
  end
  $$;
comment on function holdfast.is_present(integer) is
  'Whether the instance whose present life has this number is alive: a session vouches for it, or its row has not expired. Not to be asked on the session that vouches: a session does not exclude itself.';

-- In PL/pgSQL, because its statements see what was committed until now: the lock on the key was granted after the
-- statement that asks this had begun. Asked with every lock, so it names each thing where others set search_path, which
-- would cost a tenth of it.
create function holdfast.is_leased(key bigint) returns boolean
  language plpgsql
  as $$
  declare
    moment timestamptz;
  begin
    perform
    from holdfast.lease
    where lease.key operator(pg_catalog.=) is_leased.key;
    -- Nearly always.
    if not found then
      return false;
    end if;
    moment := holdfast.moment();
    return exists (
      select
      from holdfast.lease
      where lease.key operator(pg_catalog.=) is_leased.key
        and expires_at operator(pg_catalog.>) moment
    );
  end
  $$;
comment on function holdfast.is_leased(bigint) is
  'Whether somebody has a key by lease. Asked by whoever has just been granted a lock on it.';

create function holdfast.leased(keys bigint[]) returns bigint[]
  language plpgsql
  -- To plan it anew for each array would cost more than to run it.
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moment constant timestamptz := holdfast.moment();
  begin
    return array(
      select key
      from holdfast.lease
      where key = any(keys)
        and expires_at > moment
    );
  end
  $$;
comment on function holdfast.leased(bigint[]) is 'Those of the keys that somebody has by lease. For is_leased() of many at once.';

create function holdfast.flush_leases() returns void
  language plpgsql
  as $$
  begin
    if current_setting('synchronous_commit') = 'off' then
      perform set_config('synchronous_commit', 'on', true);
    end if;
  end
  $$;
comment on function holdfast.flush_leases() is
  'A crash must not forget a lease, or another could take it too early. Where the role does not flush its commits, this one is flushed.';

-- Whoever decides about a name has the transaction lock on its key meanwhile: a session that holds it as a lock excludes us,
-- and the fence is drawn in the order of the grants. Not waited for: a name about which somebody else decides at this
-- moment counts as taken.
create function holdfast.acquire_leases(keys bigint[], tokens text[], ttls_ms integer[], holds_ms bigint[], for_instance text)
  returns table (settled boolean, granted_fence bigint, is_fresh boolean, free_in_ms float8, is_wanted boolean)
  language plpgsql
  -- To plan it anew for each array would cost more than to run it.
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform holdfast.flush_leases();
    if not holdfast.is_settled() then
      return query select false, null::bigint, false, null::float8, null::boolean from unnest(keys);
      return;
    end if;
    return query
    with asked as materialized (
      select key, token, ttl_ms, hold_ms, place
      from unnest(keys, tokens, ttls_ms, holds_ms) with ordinality as a (key, token, ttl_ms, hold_ms, place)
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
      insert into holdfast.lease as held (key, token, instance, fence, ttl_ms, hold_ms, granted_at, expires_at)
      select
        key, token, for_instance, fence, ttl_ms, hold_ms, clock_timestamp(),
        clock_timestamp() + make_interval(secs => ttl_ms / 1000.0)
      from drawn
      where by_us
      on conflict (key) do update
      set token = excluded.token,
          instance = excluded.instance,
          -- The same token once more, in time: the same unbroken holding, of which nothing is taken back.
          fence = case when held.expires_at > clock_timestamp() then held.fence else excluded.fence end,
          granted_at = case when held.expires_at > clock_timestamp() then held.granted_at else excluded.granted_at end,
          hold_ms = case when held.expires_at > clock_timestamp() then greatest(held.hold_ms, excluded.hold_ms) else excluded.hold_ms end,
          ttl_ms = excluded.ttl_ms,
          expires_at = greatest(held.expires_at, excluded.expires_at),
          wanted = held.wanted and held.expires_at > clock_timestamp(),
          joined = (held.joined or held.instance <> excluded.instance) and held.expires_at > clock_timestamp()
      where held.expires_at <= clock_timestamp()
        or held.token = excluded.token
      returning key, fence
    )
    select
      true,
      granted.fence,
      coalesce(granted.fence = drawn.fence, false),
      -- Looked up one by one, and only where it was not granted: a join would be planned as a read of the whole table.
      case when granted.fence is null then (
        select (extract(epoch from lease.expires_at - clock_timestamp()) * 1000)::float8
        from holdfast.lease
        where lease.key = drawn.key
      ) end,
      case when granted.fence is null then (select lease.wanted from holdfast.lease where lease.key = drawn.key) end
    from drawn
    left join granted using (key)
    order by drawn.place;
  end
  $$;
comment on function holdfast.acquire_leases(bigint[], text[], integer[], bigint[], text) is
  'Grants those of the names that are free. Answers for each, in order: the fence if it was granted, and whether by this call or before, else in how many ms it expires.';

-- The name stays taken, by nobody, until its hold is over. Who waits is told, unless there is still a hold. With a fence:
-- only that grant, for the same token may have been granted anew since. Without one, by the token alone. Whoever else may
-- rely on the token is told: where it is released by the token alone, and where another instance has joined.
create function holdfast.release_leases(keys bigint[], tokens text[], fences bigint[], channel text)
  returns table (released_key bigint, released_token text, waiters_told text, holders_told text)
  language plpgsql
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return query
    with rows as materialized (
      select
        lease.key,
        lease.token,
        lease.wanted,
        lease.granted_at + make_interval(secs => lease.hold_ms / 1000.0) as held_until,
        lease.joined or asked.fence is null as tell_holders
      from unnest(keys, tokens, fences) as asked (key, token, fence)
      join holdfast.lease
        on lease.key = asked.key
        and lease.token = asked.token
        and lease.fence = coalesce(asked.fence, lease.fence)
      order by lease.key
      for update of lease
    ),
    released as (
      update holdfast.lease
      set token = '',
          wanted = false,
          joined = false,
          expires_at = greatest(held_until, clock_timestamp())
      from rows
      where lease.key = rows.key
      returning lease.key, rows.token, rows.tell_holders, rows.wanted and held_until <= clock_timestamp() as tell_waiters
    )
    select
      key,
      token,
      case when tell_waiters then pg_notify(channel, 'lease ' || key)::text end as waiters_told,
      case when tell_holders then pg_notify(channel, 'expire ' || key)::text end as holders_told
    from released;
  end
  $$;
comment on function holdfast.release_leases(bigint[], text[], bigint[], text) is
  'Gives leases back, and answers with the keys and tokens of those that were still their holders''. Without a fence: by the token alone.';

create function holdfast.guard_lease(key bigint, fence bigint) returns void
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
  'Refuses (HF001) the writes of somebody whose lease on a key is over, in the transaction of those writes.';
