-- PostgreSQL does not inline a function that has settings. Therefore, this function and rate_after_ns() do not set search_path, and qualify
-- all names.
create or replace function holdfast.limit_fits(in_use bigint, waiting integer, weight bigint, max integer) returns boolean
  language sql immutable
  as $$ select waiting operator(pg_catalog.=) 0 and (in_use operator(pg_catalog.+) weight) operator(pg_catalog.<=) max $$;
comment on function holdfast.limit_fits(bigint, integer, bigint, integer) is
  'Returns whether an entity has room for requests of this total weight. Requests that are already waiting come first.';

create or replace function holdfast.limit_remove_dead(key bigint, out in_use bigint, out waiting integer, out oldest timestamptz)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    part record;
  begin
    in_use := 0;
    waiting := 0;
    for part in
      select
        p.session,
        sum(p.weight) filter (where p.fence is not null) as used,
        count(*) filter (where p.fence is null) as queued,
        min(p.since) filter (where p.fence > 0) as oldest
      from holdfast.permit p
      where p.key = limit_remove_dead.key
      group by p.session
    loop
      if holdfast.is_present(part.session) then
        in_use := in_use + coalesce(part.used, 0);
        waiting := waiting + part.queued;
        oldest := least(oldest, part.oldest);
      else
        delete from holdfast.permit p
        where p.key = limit_remove_dead.key
          and p.session = part.session;
      end if;
    end loop;
  end
  $$;
comment on function holdfast.limit_remove_dead(bigint) is
  'Deletes an entity''s rows whose epoch is not present, and counts the other rows. The entity''s row must be locked.';

create or replace function holdfast.limit_grant_next(key bigint, in_use bigint, channel text, own_instance text)
  returns table (token bigint, instance text, weight integer, fence bigint)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    head holdfast.permit;
  begin
    for head in
      select p.*
      from holdfast.permit p
      where p.key = limit_grant_next.key
        and p.fence is null
      order by p.wait_order
    loop
      -- A light request must not overtake a heavy request, because the heavy request could starve.
      exit when in_use + head.weight > head.max;
      token := head.token;
      instance := head.instance;
      weight := head.weight;
      fence := null;
      if holdfast.is_present(head.session) then
        fence := nextval('holdfast.fence');
        in_use := in_use + head.weight;
        update holdfast.permit p
        set fence = limit_grant_next.fence,
            since = clock_timestamp()
        where p.key = head.key
          and p.token = head.token;
        if head.instance is distinct from own_instance then
          perform pg_notify(channel, concat_ws(' ', 'permit-granted', head.instance, head.token));
        end if;
      else
        delete from holdfast.permit p
        where p.key = head.key
          and p.token = head.token;
      end if;
      return next;
    end loop;
  end
  $$;
comment on function holdfast.limit_grant_next(bigint, bigint, text, text) is
  'Grants permits to the head of the queue while there is room. Notifies instances other than own_instance. Returns the requests that '
  'left the queue; the fence of a dead request is null. The entity''s row must be locked, and grace_is_over() must be true.';

create or replace function holdfast.limit_grant_waiting(key bigint, used bigint, queued integer, channel text) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if queued > 0 and holdfast.grace_is_over() then
      select used + coalesce(sum(s.weight) filter (where s.fence is not null), 0), queued - count(*)
      into used, queued
      from holdfast.limit_grant_next(limit_grant_waiting.key, used, channel, null) s;
    end if;
    update holdfast.limit_state l
    set in_use = used,
        waiting = queued,
        changed_at = now()
    where l.key = limit_grant_waiting.key
      and (l.in_use, l.waiting) is distinct from (used, queued);
  end
  $$;
comment on function holdfast.limit_grant_waiting(bigint, bigint, integer, text) is
  'Grants permits to the head of the queue while there is room, and stores the new counts. The entity''s row must be locked.';

create or replace function holdfast.limit_repair(key bigint, channel text) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- If another transaction has locked the row, that transaction or the next poll grants permits to the queue.
    perform from holdfast.limit_state l where l.key = limit_repair.key for update skip locked;
    if found then
      perform holdfast.limit_grant_waiting(limit_repair.key, s.in_use, s.waiting, channel)
      from holdfast.limit_remove_dead(limit_repair.key) s;
    end if;
  end
  $$;
comment on function holdfast.limit_repair(bigint, text) is
  'Deletes an entity''s rows that belong to dead epochs, and grants the freed permits to the queue.';

create or replace function holdfast.limit_reset(key bigint, channel text)
  returns table (instance text, weight integer, fence bigint)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform set_config('synchronous_commit', 'off', true);
    perform from holdfast.limit_state l where l.key = limit_reset.key for update;
    for instance, weight, fence in
      delete from holdfast.permit p
      where p.key = limit_reset.key
        and p.fence > 0
      returning p.instance, p.weight, p.fence
    loop
      update holdfast.instance i
      set revocations = i.revocations + 1
      where i.id = limit_reset.instance
        and i.expires_at is not null;
      return next;
    end loop;
    if not found then
      return;
    end if;
    perform pg_notify(channel, 'limit-reset ' || limit_reset.key);
    perform holdfast.limit_grant_waiting(limit_reset.key, 0, count(*)::integer, channel)
    from holdfast.permit p
    where p.key = limit_reset.key
      and p.fence is null;
  end
  $$;
comment on function holdfast.limit_reset(bigint, text) is
  'Revokes all of an entity''s permits, and grants them to the queue. Returns the revoked permits. The holders detect the revocation through '
  'a notification or at the next renewal of their presence.';

create or replace function holdfast.limit_decide(
    channel text, own_instance text, namespace text, names jsonb,
    kinds text[], keys bigint[], tokens bigint[], epochs integer[], weights integer[], maxes integer[],
    may_wait boolean
  )
  returns table (
    ordinal integer, verdict text, token bigint, fence bigint,
    used bigint, queued integer, oldest_at_ms float8, oldest_for_ms float8
  )
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    grace_over constant boolean := holdfast.grace_is_over();
    contended bigint[] := keys;
    has_uncontended boolean := false;
    request record;
    entity holdfast.limit_state;
    before holdfast.limit_state;
    released holdfast.permit;
    granted_wait record;
    session integer;
    asker_is_present boolean;
    fits boolean;
    dead_removed boolean;
    has_room boolean;
    oldest timestamptz;
    earlier_waits integer;
  begin
    -- The commit need not be flushed, because a crash empties the unlogged tables in any case.
    perform set_config('synchronous_commit', 'off', true);

    -- Fast path: a single statement decides the requests for all entities that have no waiters and have room for all of
    -- their requests. A single request arrives here only if limit_decide_one() could not decide it.
    if cardinality(keys) > 1 and grace_over and not may_wait and epochs[1] = all(epochs) and holdfast.is_present(epochs[1]) then
      select
        coalesce(array_agg(a.key) filter (where not coalesce(fits_all, false)), '{}'),
        coalesce(bool_or(fits_all), false)
      into contended, has_uncontended
      from (
        select
          a.key,
          bool_and(a.kind in ('release', 'try', 'wait')) as is_plain,
          coalesce(sum(a.weight) filter (where a.kind <> 'release'), 0) as weight,
          min(a.max) filter (where a.kind <> 'release') as max
        from unnest(keys, kinds, weights, maxes) as a (key, kind, weight, max)
        group by a.key
      ) a
      left join lateral (
        select l.waiting, l.in_use
        from holdfast.limit_state l
        where l.key = a.key
        for update skip locked
      ) l on true
      cross join lateral (
        select a.is_plain and case when a.max is null then l.waiting = 0 else holdfast.limit_fits(l.in_use, l.waiting, a.weight, a.max) end as fits_all
      ) f;
    end if;
    if has_uncontended then
      return query
        with asked as materialized (
          select (a.ordinal - 1)::integer as ordinal, a.kind, a.key, a.token, a.weight, a.max
          from unnest(kinds, keys, tokens, weights, maxes) with ordinality as a (kind, key, token, weight, max, ordinal)
          where a.key <> all(contended)
        ),
        released as (
          delete from holdfast.permit p
          using asked a
          where a.kind = 'release'
            and p.key = a.key
            and p.token = a.token
          returning a.ordinal, p.key, p.token, p.weight
        ),
        granted as (
          insert into holdfast.permit as p (key, token, session, instance, weight, max, fence, since)
          select a.key, a.token, epochs[1], own_instance, a.weight, a.max, nextval('holdfast.fence'), clock_timestamp()
          from asked a
          where a.kind <> 'release'
          on conflict on constraint permit_pkey do nothing
          returning p.key, p.token, p.weight, p.fence
        ),
        changed as (
          update holdfast.limit_state l
          set in_use = l.in_use + c.by,
              changed_at = now()
          from (
            select c.key, sum(c.by) as by
            from (
              select t.key, t.weight as by from granted t
              union all
              select g.key, - g.weight from released g
            ) c
            group by c.key
          ) c
          where l.key = c.key
            and c.by <> 0
        )
        select g.ordinal, 'released', g.token, null::bigint, null::bigint, null::integer, null::float8, null::float8
        from released g
        union all
        select array_position(tokens, t.token) - 1, 'granted', t.token, t.fence, null, null, null, null
        from granted t;
    end if;

    perform set_config('lock_timeout', '200ms', true);
    for request in
      select
        a.*,
        lag(a.key) over w is distinct from a.key as is_first,
        lead(a.key) over w is distinct from a.key as is_last
      from (
        select (a.ordinal - 1)::integer as ordinal, a.kind, a.key, a.token, a.session, a.weight, a.max
        from unnest(kinds, keys, tokens, epochs, weights, maxes)
          with ordinality as a (kind, key, token, session, weight, max, ordinal)
        where a.key = any(contended)
      ) a
      -- All transactions process entities in the same order. For each entity, releases come first, and leaves and cancels come last.
      window w as (order by a.key, array_position(array['release', 'try', 'wait', 'leave', 'cancel'], a.kind) / 2, a.ordinal)
    loop
      ordinal := request.ordinal;
      token := request.token;
      fence := null;
      earlier_waits := null;

      if request.is_first then
        loop
          entity := null;
          if may_wait then
            begin
              select l.* into entity from holdfast.limit_state l where l.key = request.key for update;
            exception
              when lock_not_available then entity := null;
            end;
          else
            select l.* into entity from holdfast.limit_state l where l.key = request.key for update skip locked;
          end if;
          -- If the row exists but has not been returned, another transaction has locked it. The batch does not wait for this row, so that
          -- the other entities are not delayed.
          exit when entity.key is not null or exists (select from holdfast.limit_state l where l.key = request.key);
          insert into holdfast.limit_state as l (key, namespace, name)
          values (request.key, limit_decide.namespace, names ->> request.ordinal)
          on conflict on constraint limit_state_pkey do nothing
          returning l.* into entity;
          exit when found;
        end loop;
        before := entity;
        dead_removed := false;
        has_room := false;
        oldest := null;
      end if;

      if entity.key is null then
        verdict := 'locked';
        return next;
        continue;
      end if;

      if request.kind in ('release', 'cancel') then
        -- Keeps the marker row (weight 0) of an earlier cancel, because the cancelled request may still arrive.
        delete from holdfast.permit p
        where p.key = request.key
          and p.token = request.token
          and p.weight > 0
        returning p.* into released;
        if found then
          verdict := 'released';
          has_room := true;
          if released.fence is null then
            entity.waiting := entity.waiting - 1;
          else
            entity.in_use := entity.in_use - released.weight;
          end if;
        else
          verdict := 'gone';
          if request.kind = 'cancel' then
            -- The cancelled request may still arrive. The marker row makes that request fail.
            insert into holdfast.permit (key, token, session, instance, weight, max, fence, since)
            values (request.key, request.token, request.session, own_instance, 0, 0, 0, clock_timestamp())
            on conflict on constraint permit_pkey do nothing;
          end if;
        end if;

      elsif request.kind = 'leave' then
        delete from holdfast.permit p
        where p.key = request.key
          and p.token = request.token
          and p.fence is null
        returning p.* into released;
        if found then
          verdict := 'left';
          has_room := true;
          entity.waiting := entity.waiting - 1;
          -- The grant time of the oldest permit and the number of earlier waiters are reported to the waiter that timed out.
          oldest := (select min(p.since) from holdfast.permit p where p.key = request.key and p.fence > 0);
          earlier_waits := (
            select count(*)
            from holdfast.permit p
            where p.key = request.key
              and p.fence is null
              and p.wait_order < released.wait_order
          );
        else
          select p.fence into fence from holdfast.permit p where p.key = request.key and p.token = request.token;
          verdict := case when found then 'granted' else 'gone' end;
        end if;

      else
        if request.session is distinct from session then
          session := request.session;
          asker_is_present := holdfast.is_present(session);
        end if;
        if grace_over and asker_is_present then
          fits := holdfast.limit_fits(entity.in_use, entity.waiting, request.weight, request.max);
          -- Waiting requests poll for dead holders, so a request that joins other waiting requests skips this step.
          if not fits and not dead_removed and (request.kind = 'try' or entity.waiting = 0) then
            select s.in_use, s.waiting, s.oldest
            into entity.in_use, entity.waiting, oldest
            from holdfast.limit_remove_dead(request.key) s;
            dead_removed := true;
            has_room := true;
            fits := holdfast.limit_fits(entity.in_use, entity.waiting, request.weight, request.max);
          end if;
        end if;
        if not asker_is_present then
          verdict := 'not-present';
        elsif grace_over and fits then
          fence := nextval('holdfast.fence');
          insert into holdfast.permit (key, token, session, instance, weight, max, fence, since)
          values (request.key, request.token, request.session, own_instance, request.weight, request.max, limit_decide.fence, clock_timestamp())
          on conflict on constraint permit_pkey do nothing;
          verdict := case when found then 'granted' else 'gone' end;
          if found then
            entity.in_use := entity.in_use + request.weight;
          end if;
        elsif request.kind = 'wait' then
          insert into holdfast.permit (key, token, session, instance, weight, max, wait_order, since)
          values (request.key, request.token, request.session, own_instance, request.weight, request.max, nextval('holdfast.wait_order'), clock_timestamp())
          on conflict on constraint permit_pkey do nothing;
          verdict := case when found then 'waiting' else 'gone' end;
          if found then
            entity.waiting := entity.waiting + 1;
          end if;
        else
          verdict := case when grace_over then 'full' else 'in-grace' end;
        end if;
      end if;

      used := entity.in_use;
      queued := coalesce(earlier_waits, entity.waiting);
      oldest_at_ms := extract(epoch from oldest) * 1000;
      oldest_for_ms := extract(epoch from clock_timestamp() - oldest) * 1000;
      return next;

      if request.is_last then
        if has_room and entity.waiting > 0 and grace_over then
          for granted_wait in
            select s.* from holdfast.limit_grant_next(request.key, entity.in_use, channel, own_instance) s
          loop
            entity.waiting := entity.waiting - 1;
            if granted_wait.fence is not null then
              entity.in_use := entity.in_use + granted_wait.weight;
              if granted_wait.instance = own_instance then
                ordinal := null;
                verdict := 'granted';
                token := granted_wait.token;
                fence := granted_wait.fence;
                return next;
              end if;
            end if;
          end loop;
        end if;
        if (entity.in_use, entity.waiting) is distinct from (before.in_use, before.waiting) then
          update holdfast.limit_state l
          set in_use = entity.in_use,
              waiting = entity.waiting,
              changed_at = now()
          where l.key = entity.key;
        end if;
      end if;
    end loop;
  end
  $$;
comment on function holdfast.limit_decide(
  text, text, text, jsonb, text[], bigint[], bigint[], integer[], integer[], integer[], boolean
) is
  'Decides all permit requests from one event-loop turn, entity by entity. Kinds: try; wait (try, then queue); release; leave (the queue; '
  'reports a grant that came first); cancel (release a request that may not have arrived). If another transaction has locked an entity, the '
  'verdict is locked, and the caller retries the entity''s requests alone, with may_wait. Rows without an ordinal are waits from the same '
  'instance that this call granted. A request without a row refers to a permit that does not exist.';

create or replace function holdfast.limit_decide_one(
    channel text, own_instance text, namespace text, name text,
    kind text, key bigint, own_token bigint, own_epoch integer, weight integer, max integer
  )
  returns table (
    ordinal integer, verdict text, token bigint, fence bigint,
    used bigint, queued integer, oldest_at_ms float8, oldest_for_ms float8
  )
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    -- The commit need not be flushed, because a crash empties the unlogged tables in any case. PL/pgSQL evaluates a declaration without
    -- the cost of a statement.
    commits constant text := set_config('synchronous_commit', 'off', true);
    change integer;
  begin
    ordinal := 0;
    token := own_token;
    -- The subqueries lock the entity's row before the permit changes and before the fence is assigned.
    if kind = 'release' then
      delete from holdfast.permit p
      where p.key = (
          select l.key
          from holdfast.limit_state l
          where l.key = limit_decide_one.key
            and l.waiting = 0
          for update skip locked
        )
        and p.token = own_token
        and p.weight > 0
      returning - p.weight into change;
      if found then
        verdict := 'released';
      end if;
    -- A standby cannot plan the statement. limit_decide() then fails with the reason.
    elsif kind in ('try', 'wait') and not pg_is_in_recovery() and holdfast.is_present(own_epoch) then
      insert into holdfast.permit as p (key, token, session, instance, weight, max, fence, since)
      select
        l.key, own_token, own_epoch, own_instance, limit_decide_one.weight, limit_decide_one.max,
        nextval('holdfast.fence'), clock_timestamp()
      from (
        select l.key
        from holdfast.limit_state l
        where l.key = limit_decide_one.key
          and holdfast.limit_fits(l.in_use, l.waiting, limit_decide_one.weight, limit_decide_one.max)
        for update skip locked
      ) l
      cross join holdfast.settled_server
      on conflict on constraint permit_pkey do nothing
      returning p.fence, p.weight into fence, change;
      if found then
        verdict := 'granted';
      end if;
    end if;
    if verdict is not null then
      update holdfast.limit_state l
      set in_use = l.in_use + change,
          changed_at = now()
      where l.key = limit_decide_one.key;
      return next;
      return;
    end if;
    return query
      select s.*
      from holdfast.limit_decide(
        channel, own_instance, limit_decide_one.namespace, jsonb_build_array(name),
        array[kind], array[limit_decide_one.key], array[own_token], array[own_epoch],
        array[limit_decide_one.weight], array[limit_decide_one.max], false
      ) s;
  end
  $$;
comment on function holdfast.limit_decide_one(
  text, text, text, text, text, bigint, bigint, integer, integer, integer
) is
  'Decides one permit request. Grants and releases permits of an entity that has room and no waiters. Leaves all other decisions to '
  'limit_decide().';

create or replace function holdfast.limit_check_waits(channel text, requests jsonb)
  returns table (ordinal integer, verdict text, fence bigint)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    keys constant bigint[] := array(select distinct a.key from jsonb_to_recordset(requests) as a (key bigint));
    dead integer[];
    affected bigint;
  begin
    perform set_config('synchronous_commit', 'off', true);
    dead := array(
      select l.session
      from (select distinct p.session from holdfast.permit p where p.key = any(keys) offset 0) l
      where not holdfast.is_present(l.session)
    );
    for affected in
      select k.key
      from unnest(keys) as k (key)
      where exists (
          select
          from holdfast.permit p
          where p.key = k.key
            and p.session = any(dead)
        )
        or exists (
          select
          from holdfast.limit_state l
          cross join lateral (
            select p.weight, p.max
            from holdfast.permit p
            where p.key = k.key
              and p.fence is null
            order by p.wait_order
            limit 1
          ) head
          where l.key = k.key
            and l.in_use + head.weight <= head.max
        )
      order by k.key
    loop
      perform holdfast.limit_repair(affected, channel);
    end loop;
    return query
      select
        a.ordinal,
        case when p.key is null then 'gone' when p.fence is null then 'waiting' else 'granted' end,
        p.fence
      from jsonb_to_recordset(requests) as a (ordinal integer, key bigint, token bigint)
      left join holdfast.permit p on p.key = a.key and p.token = a.token;
  end
  $$;
comment on function holdfast.limit_check_waits(text, jsonb) is
  'Reports which waits were granted. Writes only if a holder or waiter has died or there is room. In these cases, grants permits to the '
  'queue first.';

create or replace function holdfast.rate_after_ns(full_at bigint, now_ns bigint, interval_ns bigint, burst bigint, cost bigint)
  returns bigint
  language sql immutable
  as $$
    -- Qualified operators all have the same precedence.
    select (greatest(full_at, now_ns) operator(pg_catalog.-) now_ns)
      operator(pg_catalog.+) (interval_ns operator(pg_catalog.*) (cost operator(pg_catalog.-) burst))
  $$;
comment on function holdfast.rate_after_ns(bigint, bigint, bigint, bigint, bigint) is
  'Returns the time until a rate request is allowed. A negative time is the time for which further units are available now.';

create or replace function holdfast.rate_decide(requests jsonb, may_wait boolean)
  returns table (ordinal integer, after_ns bigint)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    request record;
    entity holdfast.rate;
    spent_until bigint;
    now_ns bigint;
    is_locked boolean;
    is_mine boolean;
  begin
    -- The commit is not flushed, because a crash loses only the decisions made in the last half second.
    perform set_config('synchronous_commit', 'off', true);
    perform set_config('lock_timeout', '200ms', true);
    for request in
      select
        a.*,
        lag(a.key) over w is distinct from a.key as is_first,
        lead(a.key) over w is distinct from a.key as is_last
      from jsonb_to_recordset(requests) as a (
        ordinal integer, key bigint, namespace text, name text, interval_ns bigint, burst bigint, cost bigint, wait_ns bigint
      )
      window w as (order by a.key, a.ordinal)
    loop
      ordinal := request.ordinal;
      if request.is_first then
        entity := null;
        is_mine := false;
        is_locked := false;
        spent_until := 0;
      end if;
      loop
        if not is_mine then
          -- Reads the row without locking it, so that a refusal writes nothing and does not wait.
          select r.full_at into entity.full_at from holdfast.rate r where r.key = request.key;
          spent_until := coalesce(entity.full_at, 0);
        end if;
        now_ns := (date_part('epoch', clock_timestamp()) * 1000000)::bigint * 1000;
        after_ns := holdfast.rate_after_ns(spent_until, now_ns, request.interval_ns, request.burst, request.cost);
        exit when is_mine or is_locked or after_ns > request.wait_ns;
        entity := null;
        if may_wait then
          begin
            select r.* into entity from holdfast.rate r where r.key = request.key for update;
          exception
            when lock_not_available then entity := null;
          end;
        else
          select r.* into entity from holdfast.rate r where r.key = request.key for update skip locked;
        end if;
        if entity.key is null then
          if exists (select from holdfast.rate r where r.key = request.key) then
            is_locked := true;
          else
            insert into holdfast.rate as r (key, namespace, name, full_at)
            values (request.key, request.namespace, request.name, 0)
            on conflict on constraint rate_pkey do nothing
            returning r.* into entity;
          end if;
        end if;
        if entity.key is not null then
          is_mine := true;
          spent_until := entity.full_at;
        end if;
      end loop;

      if after_ns <= request.wait_ns then
        if is_locked then
          after_ns := null;
        else
          spent_until := now_ns + request.interval_ns * request.burst + after_ns;
        end if;
      end if;
      return next;

      if request.is_last and is_mine and spent_until > entity.full_at then
        update holdfast.rate r
        set full_at = spent_until
        where r.key = request.key;
      end if;
    end loop;
  end
  $$;
comment on function holdfast.rate_decide(jsonb, boolean) is
  'Decides rate requests on this database''s clock. Returns the result of rate_after_ns() for each request. A request whose time exceeds its '
  'wait_ns is refused, and writes nothing. Null if another transaction has locked the row: the caller retries the request alone.';

create or replace function holdfast.rate_decide_one(
    key bigint, namespace text, name text, interval_ns bigint, burst bigint, cost bigint, wait_ns bigint
  ) returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    -- The commit is not flushed, because a crash loses only the decisions made in the last half second.
    commits constant text := set_config('synchronous_commit', 'off', true);
    now_ns constant bigint := (date_part('epoch', clock_timestamp()) * 1000000)::bigint * 1000;
    after_ns bigint;
  begin
    update holdfast.rate r
    set full_at = now_ns + interval_ns * burst + holdfast.rate_after_ns(r.full_at, now_ns, interval_ns, burst, cost)
    where r.key = (
        select l.key
        from holdfast.rate l
        where l.key = rate_decide_one.key
          and holdfast.rate_after_ns(l.full_at, now_ns, interval_ns, burst, cost) <= wait_ns
        for update skip locked
      )
    returning r.full_at - now_ns - interval_ns * burst into after_ns;
    if found then
      return after_ns;
    end if;
    select holdfast.rate_after_ns(r.full_at, now_ns, interval_ns, burst, cost)
    into after_ns
    from holdfast.rate r
    where r.key = rate_decide_one.key;
    if after_ns > wait_ns then
      return after_ns;
    end if;
    select s.after_ns
    into after_ns
    from holdfast.rate_decide(
      jsonb_build_array(jsonb_build_object(
        'ordinal', 0, 'key', key, 'namespace', namespace, 'name', name,
        'interval_ns', interval_ns, 'burst', burst, 'cost', cost, 'wait_ns', wait_ns
      )),
      false
    ) s;
    return after_ns;
  end
  $$;
comment on function holdfast.rate_decide_one(bigint, text, text, bigint, bigint, bigint, bigint) is
  'Decides one rate request whose row exists and is not locked. Leaves all other decisions to rate_decide(), and returns the same time.';

create or replace function holdfast.limit_sweep(channel text, position_share float8, pages integer) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    block constant bigint := current_setting('block_size')::bigint;
    first_page bigint;
    from_here tid;
    to_here tid;
    dead integer[];
    affected bigint;
  begin
    perform set_config('synchronous_commit', 'off', true);

    first_page := greatest(0, floor(position_share * (pages + pg_relation_size('holdfast.permit') / block)) - pages + 1);
    from_here := format('(%s,0)', first_page)::tid;
    to_here := format('(%s,0)', first_page + pages)::tid;
    dead := array(
      select l.session
      from (select distinct p.session from holdfast.permit p where p.ctid >= from_here and p.ctid < to_here offset 0) l
      where not holdfast.is_present(l.session)
    );
    for affected in
      select distinct p.key
      from holdfast.permit p
      where p.ctid >= from_here
        and p.ctid < to_here
        and p.session = any(dead)
      order by p.key
    loop
      perform holdfast.limit_repair(affected, channel);
    end loop;
    delete from holdfast.permit p
    where p.ctid >= from_here
      and p.ctid < to_here
      and p.weight = 0
      and p.since < now() - interval '1 hour';

    first_page := greatest(0, floor(position_share * (pages + pg_relation_size('holdfast.limit_state') / block)) - pages + 1);
    from_here := format('(%s,0)', first_page)::tid;
    to_here := format('(%s,0)', first_page + pages)::tid;
    delete from holdfast.limit_state
    where ctid = any(array(
      select l.ctid
      from holdfast.limit_state l
      where l.ctid >= from_here
        and l.ctid < to_here
        and l.in_use = 0
        and l.waiting = 0
        and l.changed_at < now() - interval '1 minute'
      for update skip locked
    ));

    first_page := greatest(0, floor(position_share * (pages + pg_relation_size('holdfast.rate') / block)) - pages + 1);
    from_here := format('(%s,0)', first_page)::tid;
    to_here := format('(%s,0)', first_page + pages)::tid;
    delete from holdfast.rate
    where ctid = any(array(
      select r.ctid
      from holdfast.rate r
      where r.ctid >= from_here
        and r.ctid < to_here
        and r.full_at < extract(epoch from now() - interval '1 minute')::bigint * 1000000000
      for update skip locked
    ));
  end
  $$;
comment on function holdfast.limit_sweep(text, float8, integer) is
  'Sweeps the given number of pages of each table, at a relative position between 0 and 1. Deletes entities that have been idle for a '
  'minute, permits that dead epochs held, and rates that have fully recovered.';

create or replace function holdfast.limits_largest_numbers() returns table (sequence regclass, largest bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select 'holdfast.fence'::regclass, max(fence) from holdfast.permit
    union all
    select 'holdfast.wait_order'::regclass, max(wait_order) from holdfast.permit
  $$;
comment on function holdfast.limits_largest_numbers() is
  'Returns the largest number from each sequence in this module''s tables. See sequence_positions().';

create or replace function holdfast.permit_holders(keys bigint[]) returns table (
    key text, instance text, name text, host text, os_pid integer, application text, pid integer, held_ms double precision
  )
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select
      oldest.key::text as key, oldest.instance, known.name, known.host, known.os_pid, null as application, null::integer as pid,
      (extract(epoch from clock_timestamp() - oldest.since) * 1000)::float8 as held_ms
    from unnest(keys) as requested (key)
    cross join lateral (
      select *
      from (
        select permit.key, permit.session, permit.instance, permit.since, permit.fence
        from holdfast.permit
        where permit.key = requested.key
          and permit.fence is not null
          and permit.weight > 0
        order by permit.fence
        limit 20
      ) as latest
      where holdfast.is_present(session)
      order by fence
      limit 1
    ) as oldest
    left join holdfast.instance_name as known on known.id = oldest.instance
  $$;
comment on function holdfast.permit_holders(bigint[]) is
  'Returns, for each limit, the present holder with the oldest permit.';
