-- Permits are granted and handed on here, and rates are charged.

create or replace function holdfast.limit_strike(key bigint, out in_use bigint, out waiting integer, out oldest timestamptz)
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
      where p.key = limit_strike.key
      group by p.session
    loop
      if holdfast.is_present(part.session) then
        in_use := in_use + coalesce(part.used, 0);
        waiting := waiting + part.queued;
        oldest := least(oldest, part.oldest);
      else
        delete from holdfast.permit p
        where p.key = limit_strike.key
          and p.session = part.session;
      end if;
    end loop;
  end
  $$;
comment on function holdfast.limit_strike(bigint) is
  'Strikes out whoever holds or awaits permits of an entity and is not present any more, and counts the others. The entity''s row must be locked.';

create or replace function holdfast.limit_serve(key bigint, in_use bigint, channel text, own text)
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
      where p.key = limit_serve.key
        and p.fence is null
      order by p.ticket
    loop
      -- Nobody overtakes a heavy one, or it would wait for ever.
      exit when in_use + head.weight > head.max;
      token := head.token;
      instance := head.instance;
      weight := head.weight;
      fence := null;
      if holdfast.is_present(head.session) then
        fence := nextval('holdfast.fence');
        in_use := in_use + head.weight;
        update holdfast.permit p
        set fence = limit_serve.fence,
            since = clock_timestamp()
        where p.key = head.key
          and p.token = head.token;
        if head.instance is distinct from own then
          perform pg_notify(channel, concat_ws(' ', 'permit', head.instance, head.token));
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
comment on function holdfast.limit_serve(bigint, bigint, text, text) is
  'Grants to the first of the queue, as far as there is room, and tells them, but for those of the caller''s own instance. Answers with who has left the queue; without a fence when nobody is there any more. The entity''s row must be locked, and is_settled() have been asked.';

create or replace function holdfast.limit_hand_on(key bigint, used bigint, queued integer, channel text) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if queued > 0 and holdfast.is_settled() then
      select used + coalesce(sum(s.weight) filter (where s.fence is not null), 0), queued - count(*)
      into used, queued
      from holdfast.limit_serve(limit_hand_on.key, used, channel, null) s;
    end if;
    update holdfast.limited l
    set in_use = used,
        waiting = queued,
        changed_at = now()
    where l.key = limit_hand_on.key
      and (l.in_use, l.waiting) is distinct from (used, queued);
  end
  $$;
comment on function holdfast.limit_hand_on(bigint, bigint, integer, text) is
  'Of an entity so much is in use and so many wait: grants to the first of the queue what there is room for, and writes down what is left. The entity''s row must be locked.';

create or replace function holdfast.limit_mend(key bigint, channel text) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- Whoever has it locked looks after it, or the next look will.
    perform from holdfast.limited l where l.key = limit_mend.key for update skip locked;
    if found then
      perform holdfast.limit_hand_on(limit_mend.key, s.in_use, s.waiting, channel)
      from holdfast.limit_strike(limit_mend.key) s;
    end if;
  end
  $$;
comment on function holdfast.limit_mend(bigint, text) is
  'Strikes the dead out of an entity and hands on what they had.';

create or replace function holdfast.limit_reset(key bigint, channel text)
  returns table (instance text, weight integer, fence bigint)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform set_config('synchronous_commit', 'off', true);
    perform from holdfast.limited l where l.key = limit_reset.key for update;
    for instance, weight, fence in
      delete from holdfast.permit p
      where p.key = limit_reset.key
        and p.fence > 0
      returning p.instance, p.weight, p.fence
    loop
      update holdfast.instance i
      set taken = i.taken + 1
      where i.id = limit_reset.instance
        and i.expires_at is not null;
      return next;
    end loop;
    if not found then
      return;
    end if;
    perform pg_notify(channel, 'reset ' || limit_reset.key);
    perform holdfast.limit_hand_on(limit_reset.key, 0, count(*)::integer, channel)
    from holdfast.permit p
    where p.key = limit_reset.key
      and p.fence is null;
  end
  $$;
comment on function holdfast.limit_reset(bigint, text) is
  'Takes all permits of an entity from whoever holds them, and hands on what they had. Answers with whose they were. The holders are told: by a notification, or at the next renewal of their presence.';

create or replace function holdfast.limit_turn(
    channel text, own text, namespace text, names jsonb,
    kinds text[], keys bigint[], tokens bigint[], lives integer[], weights integer[], maxes integer[],
    patient boolean
  )
  returns table (
    place integer, verdict text, token bigint, fence bigint,
    used bigint, queued integer, oldest_at_ms float8, oldest_for_ms float8
  )
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    settled constant boolean := holdfast.is_settled();
    hard bigint[] := keys;
    has_easy boolean := false;
    ask record;
    entity holdfast.limited;
    before holdfast.limited;
    given holdfast.permit;
    served record;
    session integer;
    is_living boolean;
    fits boolean;
    is_struck boolean;
    has_room boolean;
    oldest timestamptz;
  begin
    -- What a crash forgets of this, it forgets altogether.
    perform set_config('synchronous_commit', 'off', true);

    -- Most entities have room for all that is asked, and nobody waits. These are decided together.
    if settled and not patient and lives[1] = all(lives) and holdfast.is_present(lives[1]) then
      select
        coalesce(array_agg(a.key) filter (where not coalesce(fits_all, false)), '{}'),
        coalesce(bool_or(fits_all), false)
      into hard, has_easy
      from (
        select
          a.key,
          bool_and(a.kind in ('give', 'take', 'wait')) as is_plain,
          coalesce(sum(a.weight) filter (where a.kind <> 'give'), 0) as weight,
          min(a.max) filter (where a.kind <> 'give') as max
        from unnest(keys, kinds, weights, maxes) as a (key, kind, weight, max)
        group by a.key
      ) a
      left join lateral (
        select l.waiting, l.in_use
        from holdfast.limited l
        where l.key = a.key
        for update skip locked
      ) l on true
      cross join lateral (
        select a.is_plain and l.waiting = 0 and (a.max is null or l.in_use + a.weight <= a.max) as fits_all
      ) f;
    end if;
    if has_easy then
      return query
        with asked as materialized (
          select (a.place - 1)::integer as place, a.kind, a.key, a.token, a.weight, a.max
          from unnest(kinds, keys, tokens, weights, maxes) with ordinality as a (kind, key, token, weight, max, place)
          where a.key <> all(hard)
        ),
        given as (
          delete from holdfast.permit p
          using asked a
          where a.kind = 'give'
            and p.key = a.key
            and p.token = a.token
          returning a.place, p.key, p.token, p.weight
        ),
        taken as (
          insert into holdfast.permit as p (key, token, session, instance, weight, max, fence, since)
          select a.key, a.token, lives[1], own, a.weight, a.max, nextval('holdfast.fence'), clock_timestamp()
          from asked a
          where a.kind <> 'give'
          on conflict on constraint permit_pkey do nothing
          returning p.key, p.token, p.weight, p.fence
        ),
        changed as (
          update holdfast.limited l
          set in_use = l.in_use + c.by,
              changed_at = now()
          from (
            select c.key, sum(c.by) as by
            from (
              select t.key, t.weight as by from taken t
              union all
              select g.key, - g.weight from given g
            ) c
            group by c.key
          ) c
          where l.key = c.key
            and c.by <> 0
        )
        select g.place, 'given', g.token, null::bigint, null::bigint, null::integer, null::float8, null::float8
        from given g
        union all
        select array_position(tokens, t.token) - 1, 'granted', t.token, t.fence, null, null, null, null
        from taken t;
    end if;

    perform set_config('lock_timeout', '200ms', true);
    for ask in
      select
        a.*,
        lag(a.key) over w is distinct from a.key as is_first,
        lead(a.key) over w is distinct from a.key as is_last
      from (
        select (a.place - 1)::integer as place, a.kind, a.key, a.token, a.session, a.weight, a.max
        from unnest(kinds, keys, tokens, lives, weights, maxes)
          with ordinality as a (kind, key, token, session, weight, max, place)
        where a.key = any(hard)
      ) a
      -- The entities in one order everywhere. Of each, first what makes room, last what is taken back.
      window w as (order by a.key, array_position(array['give', 'take', 'wait', 'leave', 'void'], a.kind) / 2, a.place)
    loop
      place := ask.place;
      token := ask.token;
      fence := null;

      if ask.is_first then
        loop
          entity := null;
          if patient then
            begin
              select l.* into entity from holdfast.limited l where l.key = ask.key for update;
            exception
              when lock_not_available then entity := null;
            end;
          else
            select l.* into entity from holdfast.limited l where l.key = ask.key for update skip locked;
          end if;
          -- There, but locked by somebody else: no reason for the others to wait.
          exit when entity.key is not null or exists (select from holdfast.limited l where l.key = ask.key);
          insert into holdfast.limited as l (key, namespace, name)
          values (ask.key, limit_turn.namespace, names ->> ask.place)
          on conflict on constraint limited_pkey do nothing
          returning l.* into entity;
          exit when found;
        end loop;
        before := entity;
        is_struck := false;
        has_room := false;
        oldest := null;
      end if;

      if entity.key is null then
        verdict := 'locked';
        return next;
        continue;
      end if;

      if ask.kind in ('give', 'void') then
        -- Not the mark below, when a void is asked again: what it waits for may still come.
        delete from holdfast.permit p
        where p.key = ask.key
          and p.token = ask.token
          and p.weight > 0
        returning p.* into given;
        if found then
          verdict := 'given';
          has_room := true;
          if given.fence is null then
            entity.waiting := entity.waiting - 1;
          else
            entity.in_use := entity.in_use - given.weight;
          end if;
        else
          verdict := 'gone';
          if ask.kind = 'void' then
            -- The request may still be on its way: it will find that it was taken back.
            insert into holdfast.permit (key, token, session, instance, weight, max, fence, since)
            values (ask.key, ask.token, ask.session, own, 0, 0, 0, clock_timestamp())
            on conflict on constraint permit_pkey do nothing;
          end if;
        end if;

      elsif ask.kind = 'leave' then
        delete from holdfast.permit p
        where p.key = ask.key
          and p.token = ask.token
          and p.fence is null;
        if found then
          verdict := 'left';
          has_room := true;
          entity.waiting := entity.waiting - 1;
          -- Told to whoever has waited in vain.
          oldest := (select min(p.since) from holdfast.permit p where p.key = ask.key and p.fence > 0);
        else
          select p.fence into fence from holdfast.permit p where p.key = ask.key and p.token = ask.token;
          verdict := case when found then 'granted' else 'gone' end;
        end if;

      else
        if ask.session is distinct from session then
          session := ask.session;
          is_living := holdfast.is_present(session);
        end if;
        if settled and is_living then
          fits := entity.waiting = 0 and entity.in_use + ask.weight <= ask.max;
          -- Those who wait look for the dead by themselves.
          if not fits and not is_struck and (ask.kind = 'take' or entity.waiting = 0) then
            select s.in_use, s.waiting, s.oldest
            into entity.in_use, entity.waiting, oldest
            from holdfast.limit_strike(ask.key) s;
            is_struck := true;
            has_room := true;
            fits := entity.waiting = 0 and entity.in_use + ask.weight <= ask.max;
          end if;
        end if;
        if not is_living then
          verdict := 'over';
        elsif settled and fits then
          fence := nextval('holdfast.fence');
          insert into holdfast.permit (key, token, session, instance, weight, max, fence, since)
          values (ask.key, ask.token, ask.session, own, ask.weight, ask.max, limit_turn.fence, clock_timestamp())
          on conflict on constraint permit_pkey do nothing;
          verdict := case when found then 'granted' else 'gone' end;
          if found then
            entity.in_use := entity.in_use + ask.weight;
          end if;
        elsif ask.kind = 'wait' then
          insert into holdfast.permit (key, token, session, instance, weight, max, ticket, since)
          values (ask.key, ask.token, ask.session, own, ask.weight, ask.max, nextval('holdfast.ticket'), clock_timestamp())
          on conflict on constraint permit_pkey do nothing;
          verdict := case when found then 'waiting' else 'gone' end;
          if found then
            entity.waiting := entity.waiting + 1;
          end if;
        else
          verdict := case when settled then 'full' else 'unsettled' end;
        end if;
      end if;

      used := entity.in_use;
      queued := entity.waiting;
      oldest_at_ms := extract(epoch from oldest) * 1000;
      oldest_for_ms := extract(epoch from clock_timestamp() - oldest) * 1000;
      return next;

      if ask.is_last then
        if has_room and entity.waiting > 0 and settled then
          for served in
            select s.* from holdfast.limit_serve(ask.key, entity.in_use, channel, own) s
          loop
            entity.waiting := entity.waiting - 1;
            if served.fence is not null then
              entity.in_use := entity.in_use + served.weight;
              if served.instance = own then
                place := null;
                verdict := 'granted';
                token := served.token;
                fence := served.fence;
                return next;
              end if;
            end if;
          end loop;
        end if;
        if (entity.in_use, entity.waiting) is distinct from (before.in_use, before.waiting) then
          update holdfast.limited l
          set in_use = entity.in_use,
              waiting = entity.waiting,
              changed_at = now()
          where l.key = entity.key;
        end if;
      end if;
    end loop;
  end
  $$;
comment on function holdfast.limit_turn(
  text, text, text, jsonb, text[], bigint[], bigint[], integer[], integer[], integer[], boolean
) is
  'All that an instance asks of permits in one turn of its event loop, decided entity by entity: take (now or never), wait (take, or queue up), give, leave (the queue; answers if it was granted), void (give back what may still be on its way). An entity that somebody else has locked is answered with locked, and asked for again by itself, patiently. Rows without a place are waits of the same instance that were granted thereby; an ask without a row is one for what is not there (any more).';

create or replace function holdfast.limit_look(channel text, asks jsonb)
  returns table (place integer, verdict text, fence bigint)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    keys constant bigint[] := array(select distinct a.key from jsonb_to_recordset(asks) as a (key bigint));
    dead integer[];
    ailing bigint;
  begin
    perform set_config('synchronous_commit', 'off', true);
    dead := array(
      select l.session
      from (select distinct p.session from holdfast.permit p where p.key = any(keys) offset 0) l
      where not holdfast.is_present(l.session)
    );
    for ailing in
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
          from holdfast.limited l
          cross join lateral (
            select p.weight, p.max
            from holdfast.permit p
            where p.key = k.key
              and p.fence is null
            order by p.ticket
            limit 1
          ) head
          where l.key = k.key
            and l.in_use + head.weight <= head.max
        )
      order by k.key
    loop
      perform holdfast.limit_mend(ailing, channel);
    end loop;
    return query
      select
        a.place,
        case when p.key is null then 'gone' when p.fence is null then 'waiting' else 'granted' end,
        p.fence
      from jsonb_to_recordset(asks) as a (place integer, key bigint, token bigint)
      left join holdfast.permit p on p.key = a.key and p.token = a.token;
  end
  $$;
comment on function holdfast.limit_look(text, jsonb) is
  'Whether what is waited for was granted meanwhile. Reads only, unless somebody has died who stood before: then it strikes them out, and those who come next are granted.';

create or replace function holdfast.rate_turn(asks jsonb, patient boolean)
  returns table (place integer, verdict text, after_ns bigint, remaining bigint)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ask record;
    entity holdfast.rate;
    spent_until bigint;
    now_ns bigint;
    tolerance bigint;
    is_locked boolean;
    is_mine boolean;
  begin
    -- A crash forgets what was spent in its last half second, and no more.
    perform set_config('synchronous_commit', 'off', true);
    perform set_config('lock_timeout', '200ms', true);
    for ask in
      select
        a.*,
        lag(a.key) over w is distinct from a.key as is_first,
        lead(a.key) over w is distinct from a.key as is_last
      from jsonb_to_recordset(asks) as a (
        place integer, key bigint, namespace text, name text, each_ns bigint, burst bigint, cost bigint, wait_ns bigint
      )
      window w as (order by a.key, a.place)
    loop
      place := ask.place;
      tolerance := ask.each_ns * ask.burst;
      if ask.is_first then
        entity := null;
        is_mine := false;
        is_locked := false;
        spent_until := 0;
      end if;
      loop
        if not is_mine then
          -- Only read, so that a refusal writes nothing, and waits for nobody.
          select r.full_at into entity.full_at from holdfast.rate r where r.key = ask.key;
          spent_until := coalesce(entity.full_at, 0);
        end if;
        now_ns := (extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000;
        after_ns := greatest(spent_until, now_ns) + ask.each_ns * ask.cost - tolerance - now_ns;
        exit when is_mine or is_locked or after_ns > ask.wait_ns;
        entity := null;
        if patient then
          begin
            select r.* into entity from holdfast.rate r where r.key = ask.key for update;
          exception
            when lock_not_available then entity := null;
          end;
        else
          select r.* into entity from holdfast.rate r where r.key = ask.key for update skip locked;
        end if;
        if entity.key is null then
          if exists (select from holdfast.rate r where r.key = ask.key) then
            is_locked := true;
          else
            insert into holdfast.rate as r (key, namespace, name, full_at)
            values (ask.key, ask.namespace, ask.name, 0)
            on conflict on constraint rate_pkey do nothing
            returning r.* into entity;
          end if;
        end if;
        if entity.key is not null then
          is_mine := true;
          spent_until := entity.full_at;
        end if;
      end loop;

      if after_ns > ask.wait_ns then
        verdict := 'refused';
        remaining := 0;
      elsif is_locked then
        verdict := 'locked';
      else
        verdict := 'allowed';
        spent_until := greatest(spent_until, now_ns) + ask.each_ns * ask.cost;
        remaining := greatest(0, (tolerance - (spent_until - now_ns)) / ask.each_ns);
      end if;
      after_ns := greatest(0, after_ns);
      return next;

      if ask.is_last and is_mine and spent_until > entity.full_at then
        update holdfast.rate r
        set full_at = spent_until
        where r.key = ask.key;
      end if;
    end loop;
  end
  $$;
comment on function holdfast.rate_turn(jsonb, boolean) is
  'Decides what may be spent now (or within the time that the asker would wait), on the clock of this database: allowed, refused (and after how many nanoseconds it would be allowed), or locked by somebody else, to be asked for again by itself. A refusal writes nothing.';

create or replace function holdfast.limit_sweep(channel text, place float8, pages integer) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    block constant bigint := current_setting('block_size')::bigint;
    first_page bigint;
    from_here tid;
    to_here tid;
    dead integer[];
    ailing bigint;
  begin
    perform set_config('synchronous_commit', 'off', true);

    first_page := greatest(0, floor(place * (pages + pg_relation_size('holdfast.permit') / block)) - pages + 1);
    from_here := format('(%s,0)', first_page)::tid;
    to_here := format('(%s,0)', first_page + pages)::tid;
    dead := array(
      select l.session
      from (select distinct p.session from holdfast.permit p where p.ctid >= from_here and p.ctid < to_here offset 0) l
      where not holdfast.is_present(l.session)
    );
    for ailing in
      select distinct p.key
      from holdfast.permit p
      where p.ctid >= from_here
        and p.ctid < to_here
        and p.session = any(dead)
      order by p.key
    loop
      perform holdfast.limit_mend(ailing, channel);
    end loop;
    delete from holdfast.permit p
    where p.ctid >= from_here
      and p.ctid < to_here
      and p.weight = 0
      and p.since < now() - interval '1 hour';

    first_page := greatest(0, floor(place * (pages + pg_relation_size('holdfast.limited') / block)) - pages + 1);
    from_here := format('(%s,0)', first_page)::tid;
    to_here := format('(%s,0)', first_page + pages)::tid;
    delete from holdfast.limited
    where ctid = any(array(
      select l.ctid
      from holdfast.limited l
      where l.ctid >= from_here
        and l.ctid < to_here
        and l.in_use = 0
        and l.waiting = 0
        and l.changed_at < now() - interval '1 minute'
      for update skip locked
    ));

    first_page := greatest(0, floor(place * (pages + pg_relation_size('holdfast.rate') / block)) - pages + 1);
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
  'Sweeps a piece of the tables, so many pages of each, at a place between 0 and 1: entities of which nothing has been in use for a minute, permits of the dead, rates that are full again. Every instance does it from time to time as it takes permits, so that what is swept keeps pace with what is made.';
