create or replace function holdfast.claim_deliveries(for_namespace text, asked_keys json, is_own_transaction boolean, by_instance text)
  returns table (key text, state text, fence bigint, fingerprint text, value text, body bytea)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    -- A key is free if it has no row, its result has expired, or its run's session has ended. The statement tries to acquire the transaction lock on
    -- each free key and does not wait for this lock. A caller's transaction holds the lock until it ends, and waiting for its uncommitted row would
    -- block the whole batch. The wait for a row is limited: a dead run's transaction, which has recorded a result, may still hold its row. After a
    -- longer wait, the caller would have given up, and the claim would take effect later. With is_own_transaction, the claim is not flushed (a crash
    -- also ends its epoch), and no key is granted before the grace period ends. The state "retry" means that another claim committed after this
    -- statement's snapshot. Uses the index delivery_pkey. The query is in a function so that PostgreSQL caches its plan, because planning takes longer
    -- than execution.
    return query
    with unflushed as materialized (
      select
        case when is_own_transaction then set_config('synchronous_commit', 'off', true) end as commits,
        case when is_own_transaction then set_config('lock_timeout', '200ms', true) end as waits
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

-- One key, which is the usual case. The statements of this function use the index delivery_pkey, even without table
-- statistics.
create or replace function holdfast.claim_delivery(
  for_namespace text, for_key text, key_lock bigint, run_token text, run_session integer, run_fingerprint text, retain_ms bigint,
  is_own_transaction boolean, by_instance text,
  out state text, out fence bigint, out fingerprint text, out value text, out body bytea
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    is_kept boolean;
  begin
    select delivery.state, delivery.fingerprint, delivery.value::text, delivery.body, delivery.expires_at > clock_timestamp()
    into state, fingerprint, value, body, is_kept
    from holdfast.delivery
    where namespace = for_namespace
      and key = for_key;
    if found then
      if state <> 'in-flight' and is_kept then
        return;
      end if;
    elsif (not is_own_transaction or holdfast.grace_is_over()) and pg_try_advisory_xact_lock(key_lock) then
      if is_own_transaction then
        perform set_config('synchronous_commit', 'off', true);
      end if;
      insert into holdfast.delivery
        (namespace, key, state, token, session, instance, fence, fingerprint, started_at, expires_at)
      values (
        for_namespace, for_key, 'in-flight', run_token, run_session, by_instance, nextval('holdfast.fence'), run_fingerprint, clock_timestamp(),
        clock_timestamp() + make_interval(secs => retain_ms / 1000.0)
      )
      on conflict on constraint delivery_pkey do nothing
      returning delivery.fence into fence;
      if found then
        state := 'claimed';
        return;
      end if;
    end if;
    -- All other cases are rare: a run in flight, an expired row, the grace period, or another claim at the same time.
    select claimed.state, claimed.fence, claimed.fingerprint, claimed.value, claimed.body
    into state, fence, fingerprint, value, body
    from holdfast.claim_deliveries(
      for_namespace,
      json_build_array(json_build_object(
        'key', for_key, 'lock_key', key_lock, 'token', run_token, 'session', run_session, 'fingerprint', run_fingerprint, 'retain_ms', retain_ms
      )),
      is_own_transaction,
      by_instance
    ) as claimed;
  end
  $$;
comment on function holdfast.claim_delivery(text, text, bigint, text, integer, text, bigint, boolean, text) is
  'Returns one key''s state, and claims the key if it is free. Decides the two usual cases itself: the key has a result, or no row. claim_deliveries() decides all other cases.';

-- finish_batch in once.sql records several results by the same rules.
create or replace function holdfast.finish_delivery(
  for_namespace text, for_key text, run_token text, new_state text, answer text, answer_body bytea, retain_ms bigint
) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- The commit is flushed even if the role has turned synchronous_commit off, because a crash must not lose a result that a caller has
    -- received.
    if current_setting('synchronous_commit') = 'off' then
      perform set_config('synchronous_commit', 'on', true);
    end if;
    update holdfast.delivery
    set state = new_state,
        value = answer::json,
        body = answer_body,
        finished_at = clock_timestamp(),
        expires_at = clock_timestamp() + make_interval(secs => retain_ms / 1000.0)
    where namespace = for_namespace
      and key = for_key
      and token = run_token
      and state = 'in-flight';
    if found then
      return true;
    end if;
    -- The result may have been recorded before, and the response lost.
    return exists (
      select
      from holdfast.delivery
      where namespace = for_namespace
        and key = for_key
        and token = run_token
    );
  end
  $$;
comment on function holdfast.finish_delivery(text, text, text, text, text, bytea, bigint) is
  'Records the result of the run with the token. Returns false if another run has taken over the key.';

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
