-- Keys of deliveries are claimed here.

create or replace function holdfast.claim_deliveries(for_namespace text, asked_keys json, is_own_transaction boolean, by_instance text)
  returns table (key text, state text, fence bigint, fingerprint text, value text, body bytea)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    -- For each of the asked keys (asked_keys): what is known of it, or, when it is free, a claim to it. A key is free when it has no
    -- row, when its answer has expired, or when its run has died with its session. Whoever decides about a free key has the
    -- transaction lock on it meanwhile, tried for and never waited for: a caller's transaction which runs the key has it until
    -- its end, and its uncommitted row would otherwise block us and everybody in our batch. The claim is not flushed (is_own_transaction),
    -- because a crash ends the epoch that it is worth something in. Nothing is granted before the server is settled (is_own_transaction again:
    -- a caller's transaction vouches for itself). The answer "retry": somebody was faster since our snapshot. Relies on
    -- delivery_pkey.
    -- A function, because its plan is kept: to plan it takes longer than to run it.
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
        -- Said once more, because a join alone may be planned as a reading of the whole namespace.
        and delivery.key = any(array(select asked.key from asked))
      where case delivery.state
        when 'in-flight' then holdfast.is_present(delivery.session)
        else delivery.expires_at > clock_timestamp()
      end
    ),
    tried as materialized (
      -- Asked for free keys alone, and once: a replay need not know whether the server is settled.
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
  'For each of the asked keys what is known of it, or, when it is free, a claim to it.';
