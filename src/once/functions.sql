create or replace function holdfast.claim_deliveries(for_namespace text, asked_keys json, is_own_transaction boolean, by_instance text)
  returns table (key text, state text, fence bigint, fingerprint text, value text, body bytea)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    -- A key is free if it has no row, its answer has expired, or its run's session has ended. The statement tries to acquire the transaction lock on
    -- each free key and never waits for a lock. A caller's transaction holds the lock until it ends, and waiting for its uncommitted row would block
    -- the whole batch. With is_own_transaction, the claim is not flushed (a crash also ends its epoch), and no key is granted before the grace period
    -- ends. The state "retry" means that another claim committed after this statement's snapshot. Uses the index delivery_pkey. The query is in a
    -- function so that PostgreSQL caches its plan, because planning takes longer than execution.
    return query
    with unflushed as materialized (
      select case when is_own_transaction then set_config('synchronous_commit', 'off', true) end as commits
    ),
    grace as materialized (
      select case when is_own_transaction then holdfast.grace_is_over() else true end as yes
      from unflushed
    ),
    asked as materialized (
      select key, lock_key, token, session, fingerprint, retain_ms
      from json_to_recordset(asked_keys)
        as a (key text, lock_key bigint, token text, session integer, fingerprint text, retain_ms bigint)
    ),
    known as materialized (
      select delivery.key, delivery.state, delivery.fingerprint, delivery.value::text as value, delivery.body
      from asked
      join holdfast.delivery on delivery.namespace = for_namespace
        and delivery.key = asked.key
        -- Repeats the join condition; otherwise, the planner may scan the whole namespace.
        and delivery.key = any(array(select asked.key from asked))
      where case delivery.state
        when 'in-flight' then holdfast.is_present(delivery.session)
        else delivery.expires_at > clock_timestamp()
      end
    ),
    tried as materialized (
      -- Checks the grace period once, and only for free keys, because a replay does not depend on the grace period.
      select
        asked.*,
        (select yes from grace) as grace_over,
        case when (select yes from grace) then pg_try_advisory_xact_lock(lock_key) end as by_us
      from asked
      where key not in (select key from known)
    ),
    claimed as (
      insert into holdfast.delivery as held
        (namespace, key, state, token, session, instance, fence, fingerprint, started_at, expires_at)
      select
        for_namespace, key, 'in-flight', token, session, by_instance, nextval('holdfast.fence'), fingerprint, clock_timestamp(),
        clock_timestamp() + make_interval(secs => retain_ms / 1000.0)
      from (select * from tried where by_us order by key collate "C") as ours
      on conflict (namespace, key) do update
      set state = 'in-flight',
          token = excluded.token,
          session = excluded.session,
          instance = excluded.instance,
          fence = excluded.fence,
          fingerprint = excluded.fingerprint,
          value = null,
          body = null,
          started_at = excluded.started_at,
          finished_at = null,
          expires_at = excluded.expires_at
      where case held.state
        when 'in-flight' then not holdfast.is_present(held.session)
        else held.expires_at <= clock_timestamp()
      end
      returning key, fence
    )
    select
      asked.key,
      case
        when claimed.key is not null then 'claimed'
        when known.key is not null then known.state
        when not tried.grace_over then 'in-grace'
        when not tried.by_us then 'busy'
        else 'retry'
      end as state,
      claimed.fence,
      known.fingerprint,
      known.value,
      known.body
    from asked
    left join known using (key)
    left join tried using (key)
    left join claimed using (key);
  end
  $$;
comment on function holdfast.claim_deliveries(text, json, boolean, text) is
  'Returns each key''s state, and claims the free keys.';

create or replace function holdfast.once_largest_numbers() returns table (sequence regclass, largest bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with latest as (
      select fence, session from holdfast.delivery order by expires_at desc limit 1000
    )
    select 'holdfast.fence'::regclass, max(fence) from latest
    union all
    select 'holdfast.session'::regclass, max(session) from latest
  $$;
comment on function holdfast.once_largest_numbers() is
  'Returns the largest number from each sequence in this module''s tables. See sequence_positions().';
