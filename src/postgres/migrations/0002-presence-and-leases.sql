-- Presence without a session, and leases: what works through any pooler.

alter table holdfast.instance
  alter column backend_pid drop not null,
  add column expires_at timestamptz;
comment on column holdfast.instance.backend_pid is 'The server process of its anchor; null without one.';
comment on column holdfast.instance.expires_at is
  'Without an anchor: until when it is present, unless it renews. Null with one: then the lock on its session''s number tells.';
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
  wanted boolean not null default false
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
create index lease_expires_at on holdfast.lease (expires_at);

create function holdfast.generation() returns integer
  language plpgsql
  as $$
  declare
    recorded holdfast.fencing;
  begin
    select * into recorded from holdfast.fencing;
    -- A failover, too, leads to a server that started at another time.
    if recorded.started_at is distinct from greatest(pg_postmaster_start_time(), (select stats_reset from pg_stat_bgwriter))
    then
      perform holdfast.advance_fence();
      select * into recorded from holdfast.fencing;
    end if;
    return recorded.generation;
  end
  $$;
comment on function holdfast.generation() is
  'The generation of the server (see fencing), also when nobody has noticed its beginning before.';

create function holdfast.is_settled() returns boolean
  language plpgsql
  as $$
  declare
    present constant integer := holdfast.generation();
  begin
    return not exists (
      select
      from holdfast.fencing
      join holdfast.instance on instance.generation < present
      where clock_timestamp() < fencing.began_at + make_interval(secs => instance.expiry_ms / 1000.0)
    );
  end
  $$;
comment on function holdfast.is_settled() is
  'False for a while after a restart, crash or failover: somebody who was cut off then may still believe in what is gone. Ask it before any grant, and draw the fence after it.';

create function holdfast.is_present(session integer) returns boolean
  language plpgsql
  as $$
  begin
    return not pg_try_advisory_xact_lock_shared(holdfast.session_class(), session)
      or exists (
        select
        from holdfast.instance
        where instance.session = is_present.session
          and expires_at > clock_timestamp()
      );
  end
  $$;
comment on function holdfast.is_present(integer) is
  'Whether the instance whose present life has this number is alive: a session vouches for it, or its row has not expired. Not to be asked on the session that vouches: a session does not exclude itself.';

-- In PL/pgSQL, because its statements see what was committed until now: the lock on the key was granted after the
-- statement that asks this had begun.
create function holdfast.is_leased(key bigint) returns boolean
  language plpgsql
  as $$
  begin
    perform from holdfast.lease where lease.key = is_leased.key and expires_at > clock_timestamp();
    return found;
  end
  $$;
comment on function holdfast.is_leased(bigint) is
  'Whether somebody has a key by lease. Asked by whoever has just been granted a lock on it.';

create function holdfast.leased(keys bigint[]) returns bigint[]
  language plpgsql
  -- To plan it anew for each array would cost more than to run it.
  set plan_cache_mode = force_generic_plan
  as $$
  begin
    return array(select key from holdfast.lease where key = any(keys) and expires_at > clock_timestamp());
  end
  $$;
comment on function holdfast.leased(bigint[]) is 'Those of the keys that somebody has by lease. For is_leased() of many at once.';

create function holdfast.guard_lease(key bigint, fence bigint) returns void
  language plpgsql
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
