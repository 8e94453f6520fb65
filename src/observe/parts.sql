-- SQL that several statements share. A line `-- include: used_queue` in a statement includes the part with that name. Each part ends with
-- the comma before the next expression or column.

-- part: advisory
-- The advisory locks in this database. For a lock on a name, the column key contains the name's key. For a lock on a session number, the
-- column session contains the number. The part is materialized, because the planner underestimates the number of rows and would otherwise
-- read the lock table once per row of the joined table.
advisory as materialized (
  select
    mode,
    granted,
    pid,
    waitstart,
    case objsubid when 1 then (classid::bigint << 32) | objid::bigint end as key,
    case
      when objsubid = 2 and granted and classid = (holdfast.session_class()::bigint & 4294967295)::oid then objid::integer
    end as session
  from pg_locks
  where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())
),

-- part: used_queue
-- The queues with a registered name, and the queues with rows in the tables job or waiting. Each queue costs one index step in job_order
-- and one index step in waiting_queue, regardless of the number of jobs.
used_queue as materialized (
  with recursive
  of_jobs as (
    (select queue from holdfast.job order by queue limit 1)
    union all
    select (select min(queue) from holdfast.job where job.queue > of_jobs.queue)
    from of_jobs
    where queue is not null
  ),
  of_waiting as (
    (select queue from holdfast.waiting order by queue limit 1)
    union all
    select (select min(queue) from holdfast.waiting where waiting.queue > of_waiting.queue)
    from of_waiting
    where queue is not null
  )
  select key, namespace, name, paused_at
  from (
    select key from holdfast.queue
    union
    select queue from of_jobs where queue is not null
    union
    select queue from of_waiting where queue is not null
  ) as keys
  left join holdfast.queue using (key)
),

-- part: running_job
-- The running jobs: the ids of all claims, without the ids whose end is recorded. `offset 0` and `limit 1` make the planner use the indexes
-- job_end_bucket and job_id, however large the tables are.
claimed_job as materialized (
  select fence, session, claimed_at, unnest(ids) as id from holdfast.claim
),
ended_attempt as materialized (
  select attempt.fence, unnest(attempt.ids) as id
  from (select distinct fence, holdfast.job_bucket(id) as bucket from claimed_job) as claimed
  cross join lateral (
    select fence, ids
    from holdfast.job_end
    where job_end.bucket = claimed.bucket
      and job_end.fence = claimed.fence
    offset 0
  ) as attempt
),
unended_job as materialized (
  select *
  from claimed_job
  where not exists (select from ended_attempt where ended_attempt.fence = claimed_job.fence and ended_attempt.id = claimed_job.id)
),
running_job as materialized (
  select unended_job.*, entered.queue
  from unended_job
  -- All of a job's entries have the same queue.
  cross join lateral (select queue from holdfast.job where job.id = unended_job.id limit 1) as entered
),

-- part: ready_stretch
-- The places that contain ready entries, in at most a few steps per level. A stretch without a kind is a range of the index job_order: the entries
-- behind the level's frontier, or the entries of a transaction that was in progress when the frontier passed it. A stretch with a kind is a range of
-- the index job_skipped_queue.
level_frontier as materialized (
  select
    *,
    greatest(at_xid, pg_snapshot_xmax(base)) as from_xid,
    exists (select from holdfast.job_removed where job_removed.queue = levels.queue) as has_removed
  from holdfast.job_levels() as levels
),
skipped_level as materialized (
  with recursive level as (
    (select queue, kind, priority from holdfast.job_skipped order by queue, kind, priority limit 1)
    union all
    select next.queue, next.kind, next.priority
    from level
    cross join lateral (
      select queue, kind, priority
      from holdfast.job_skipped
      where (job_skipped.queue, job_skipped.kind, job_skipped.priority) > (level.queue, level.kind, level.priority)
      order by queue, kind, priority
      limit 1
    ) as next
  )
  select * from level
),
ready_stretch as materialized (
  select
    queue, priority, null as kind, has_removed, era as from_era, from_xid,
    case when from_xid = at_xid then at_entry else 0 end as from_entry, 2147483647 as to_era, '18446744073709551615'::xid8 as to_xid
  from level_frontier
  union all
  select
    queue, priority, null, has_removed, era, xid,
    case when xid = at_xid and pg_visible_in_snapshot(xid, upto) then at_entry else 0 end, era, xid
  from level_frontier
  cross join lateral (select pg_snapshot_xip(base) as xid union select pg_snapshot_xip(upto)) as open
  where xid < from_xid
    and not (xid < at_xid and pg_visible_in_snapshot(xid, upto))
  union all
  select queue, priority, kind, false, null, null, null, null, null from skipped_level
),

-- part: stretch_entries
-- The first max_rows entries of a ready_stretch, for `cross join lateral`. Reads at most twice as many entries if jobs were cancelled.
  select entered.*
  from (
    select job.*
    from holdfast.job
    where stretch.kind is null
      and job.queue = stretch.queue
      and job.priority = stretch.priority
      and (job.era, job.xid, job.entry) > (stretch.from_era, stretch.from_xid, stretch.from_entry)
      and (job.era, job.xid) <= (stretch.to_era, stretch.to_xid)
    order by job.era, job.xid, job.entry
    limit (select stretch.max_rows * (1 + stretch.has_removed::integer))
  ) as entered
  -- A scalar subquery, because a hash join would read all removed entries.
  where not stretch.has_removed
    or (select job_removed.entry from holdfast.job_removed where job_removed.entry = entered.entry) is null
  union all
  select entered.*
  from (
    select id, entry
    from holdfast.job_skipped
    where job_skipped.queue = stretch.queue
      and job_skipped.kind = stretch.kind
      and job_skipped.priority = stretch.priority
      and job_skipped.entry > coalesce(stretch.from_entry, 0)
    order by job_skipped.entry
    limit (select stretch.max_rows)
  ) as skipped
  cross join lateral (
    select * from holdfast.job where job.id = skipped.id and job.entry = skipped.entry offset 0
  ) as entered

-- part: found_job
-- The jobs that match a search: namespace ($1), queues ($2), kinds ($3), lanes ($4; each null for all), IDs ($5, or null), all states
-- ($17), states of the source stopped ($7), and wait reasons ($8, or null). $12 contains values in the input or the meta: the column, a
-- path and a text. $13 contains texts that the last error contains. $14 contains texts that the number, the kind, the queue or the last
-- error contains. The job's state changed between $15 and $16. Each of these times is in milliseconds since 1970, or in milliseconds before
-- now as a negative number, or null. $6 contains the sources to read, with the position after which each source starts. Each source has its
-- own kind of position, by which its jobs are sorted. The part `shown` contains at most $9 jobs. The part `source_state` contains the
-- position at which each source stopped. A source scans at most $10 rows, and the source done $11 rows, because the filters have no index.
-- A scan that reaches the limit has an is_cut row. The limits are subqueries, so that the planner chooses the index. Uses the indexes
-- job_order, job_id, job_skipped_queue, waiting_queue, waiting_pkey, job_stopped_state and job_end_bucket.
-- include: used_queue
-- include: running_job
-- include: ready_stretch
source as materialized (
  select key as name, array(select json_array_elements_text(value)::bigint) as after from json_each($6::text::json)
),
period as materialized (
  select
    case when $15::double precision < 0 then clock_timestamp() + $15 * interval '1 ms' else to_timestamp($15 / 1000) end as since,
    case when $16::double precision < 0 then clock_timestamp() + $16 * interval '1 ms' else to_timestamp($16 / 1000) end as until
),
requested as materialized (
  select key, name
  from used_queue
  where ($1::text is null or namespace = $1)
    and ($2::text[] is null or name = any($2))
),
-- A search by ID does not scan queues.
walked as materialized (
  select key, greatest($9::integer + 1, $10::integer / count(*) over ()) as max_rows from requested where $5::text is null
),
wanted_value as materialized (
  select pair ->> 'source' as source, array(select json_array_elements_text(pair -> 'path')) as path, pair ->> 'value' as value
  from json_array_elements($12::text::json) as pair
),
wanted_text as materialized (
  select word, true as is_error from unnest($13::text[]) as word
  union all
  select word, false from unnest($14::text[]) as word
),
-- Each source applies the filters to its own candidates, so that the source can stop scanning when it has enough rows.
by_id as materialized (
  select
    'id' as source, 0 as part, array[-id] as place, id, queue, state, kind, priority, enqueued_at, run_at, claimed_at, ended_at, session,
    fence, failed, crashes, error, failures, links, meta, stage, changed_at, true as matches, 1 as number, false as is_cut
  from (
    select
      f.*, waiting.stage,
      coalesce(f.ended_at, f.claimed_at, case f.state when 'waiting' then (f.failures -> -1 ->> 'at')::timestamptz end, f.enqueued_at) as changed_at,
      source.after
    from source
    cross join lateral holdfast.job_find(
      coalesce($5::text::bigint[], array(select word::bigint from unnest($14::text[]) as word where word ~ '^[1-9][0-9]{0,14}$'))
    ) as f
    left join holdfast.waiting on waiting.id = f.id and f.state = 'waiting'
    where source.name = 'id'
  ) as looked
  where (cardinality(after) = 0 or -id > after[1])
    and (($1::text is null and $2::text[] is null) or queue in (select key from requested))
    and state = any($17::text[])
    and ($8::text[] is null or stage is null or case when stage <> 'time' then stage when failed + crashes > 0 then 'attempt' else 'time' end = any($8))
    and
-- include: is_wanted
),
running as (
  select
    'running', 1, place, id, queue, 'running', kind, priority, coalesce(enqueued_at, entered_at), null::timestamptz, changed_at,
    null::timestamptz, session, claim_fence, coalesce(failed, 0), coalesce(crashes, 0::smallint), error, failures, links, meta, null,
    changed_at, true, 1, false
  from (
    select job.*, claimed.claimed_at as changed_at, claimed.session, claimed.fence as claim_fence, claimed.place, null::json as error
    from (
      select running_job.*, array[(extract(epoch from claimed_at) * 1000000)::bigint, id] as place
      from running_job
      where queue in (select key from walked)
    ) as claimed
    join source on source.name = 'running'
    cross join lateral (
      select * from holdfast.job where job.id = claimed.id order by entry desc limit 1
    ) as job
    where cardinality(source.after) = 0
      or claimed.place > source.after
  ) as looked
  where
-- include: is_wanted
  order by place
  limit $9::integer + 1
),
ready as (
  select
    source, case source when 'ready' then 3 else 4 end, place, id, queue, 'ready', job_kind, priority, coalesce(enqueued_at, entered_at),
    null::timestamptz, null::timestamptz, null::timestamptz, null::integer, null::bigint, coalesce(failed, 0), coalesce(crashes, 0::smallint),
    null::json, failures, links, meta, null, changed_at, matches, number, is_cut
  from (
    select
      source.name as source, s.queue, s.priority, s.kind, s.has_removed, s.to_era, s.to_xid, walked.max_rows,
      case when resumed.is_later then source.after[2]::integer else s.from_era end as from_era,
      case when resumed.is_later then source.after[3]::text::xid8 else s.from_xid end as from_xid,
      case
        when s.kind is not null and s.priority = -source.after[1] then source.after[2]
        when resumed.is_later then source.after[4]
        else s.from_entry
      end as from_entry
    from walked
    join ready_stretch as s on s.queue = walked.key
    join source on source.name = case when s.kind is null then 'ready' else 'skipped' end
    cross join lateral (
      select coalesce(
        s.kind is null
        and s.priority = -source.after[1]
        and (source.after[2]::integer, source.after[3]::text::xid8, source.after[4]) > (s.from_era, s.from_xid, s.from_entry),
        false
      ) as is_later
    ) as resumed
    where cardinality(source.after) = 0
      or s.priority <= -source.after[1]
  ) as stretch
  cross join lateral (
    select
      id, kind as job_kind, enqueued_at, entered_at, failed, crashes, failures, links, meta, changed_at, matches, number,
      case
        when stretch.kind is null then array[-priority, era, xid::text::bigint, entry]
        else array[-priority, entry]
      end as place,
      number = stretch.max_rows as is_cut
    from (
      select
        *,
-- include: is_wanted
        as matches,
        row_number() over () as number
      from (
        select entered.*, entered_at as changed_at, null::json as error
        from (
-- include: stretch_entries
        ) as entered
      ) as looked
    ) as numbered
    where matches
      or number = stretch.max_rows
    limit $9::integer + 1
  ) as found
),
waiting as (
  select
    'waiting', 5, place, id, queue, 'waiting', kind, priority, enqueued_at, run_at, null::timestamptz, null::timestamptz, null::integer,
    null::bigint, failed, crashes, null::json, failures, links, meta, stage, changed_at, matches, number, number = max_rows
  from source
  cross join walked
  cross join lateral (
    select *
    from (
      select
        *,
        (
          $8::text[] is null
          or case when stage <> 'time' then stage when failed + crashes > 0 then 'attempt' else 'time' end = any($8)
        )
        and
-- include: is_wanted
        as matches,
        array[(extract(epoch from run_at) * 1000000)::bigint, id] as place,
        row_number() over () as number
      from (
        select waiting.*, coalesce((failures -> -1 ->> 'at')::timestamptz, enqueued_at) as changed_at, null::json as error
        from holdfast.waiting
        where waiting.queue = key
          and (waiting.run_at, waiting.id) > (
            coalesce(timestamptz 'epoch' + source.after[1] * interval '1 microsecond', '-infinity'), coalesce(source.after[2], 0)
          )
        order by waiting.run_at, waiting.id
        limit (select walked.max_rows)
      ) as looked
    ) as numbered
    where matches
      or number = walked.max_rows
    limit $9::integer + 1
  ) as found
  where source.name = 'waiting'
),
stopped as (
  select
    name, part, array[-id], id, queue, state, kind, priority, enqueued_at, null::timestamptz, claimed_at, ended_at, session, fence, failed,
    crashes, error, failures, links, meta, null, changed_at, matches, number, number = max_rows
  from source
  join (
    select 'failed', 2, 'buried'
    union all
    select 'stopped', 6, state from unnest($7::text[]) as state
  ) as wanted (source_name, part, wanted_state) on wanted.source_name = source.name
  cross join walked
  cross join lateral (
    select *
    from (
      select
        *,
-- include: is_wanted
        as matches,
        row_number() over () as number
      from (
        select job_stopped.*, ended_at as changed_at
        from holdfast.job_stopped
        where job_stopped.queue = key
          and job_stopped.state = wanted_state
          and job_stopped.id < coalesce(-source.after[1], 9223372036854775807)
          -- Skips the days before the period.
          and job_stopped.ended_at >= coalesce((select date_trunc('day', since at time zone 'UTC') at time zone 'UTC' from period), '-infinity')
        order by job_stopped.id desc
        limit (select walked.max_rows)
      ) as looked
    ) as numbered
    where matches
      or number = walked.max_rows
    limit $9::integer + 1
  ) as found
),
archived as (
  select
    'archived', 7, array[-id], id, queue, state, kind, priority, enqueued_at, null::timestamptz, claimed_at, ended_at, session, fence, failed,
    crashes, error, failures, links, meta, null, changed_at, matches, number, number = max_rows
  from source
  cross join walked
  -- The index lists the jobs of one state, so each state is a scan of its own.
  cross join lateral unnest($17::text[]) as wanted (wanted_state)
  cross join lateral (
    select *
    from (
      select
        *,
-- include: is_wanted
        as matches,
        row_number() over () as number
      from (
        select job_archive.*, ended_at as changed_at
        from holdfast.job_archive
        where job_archive.queue = key
          and job_archive.state = wanted_state
          and job_archive.id < coalesce(-source.after[1], 9223372036854775807)
        order by job_archive.id desc
        limit (select walked.max_rows)
      ) as looked
    ) as numbered
    where matches
      or number = walked.max_rows
    limit $9::integer + 1
  ) as found
  where source.name = 'archived'
),
-- Reads the buckets of job_end from the largest IDs down. PostgreSQL computes the steps of a recursive query only as they are needed, so the
-- scan stops when it has found enough jobs.
done as (
  select
    'done', 6, array[-id], id, queue, 'done', kind, priority, enqueued_at, null::timestamptz, claimed_at, ended_at, session, fence, failed, crashes,
    null::json, failures, links, meta, null, changed_at, matches, number, number = $11::integer
  from (
    select
      *,
      queue in (select key from walked)
        and
-- include: is_wanted
        as matches,
      row_number() over () as number
    from (
      select ended.*, entered.*, ended.ended_at as changed_at, null::json as error
      from source
      cross join lateral (
        with recursive step as (
          (
            select bucket
            from holdfast.job_end
            where bucket <= coalesce(holdfast.job_bucket(-source.after[1]), 9223372036854775807)
            order by bucket desc
            limit 1
          )
          union all
          select (select max(bucket) from holdfast.job_end where job_end.bucket < step.bucket) from step where bucket is not null
        )
        select bucket from step where bucket is not null
      ) as step
      cross join lateral (
        select ids.id, job_end.fence, job_end.session, job_end.claimed_at, job_end.ended_at
        from holdfast.job_end
        cross join lateral unnest(job_end.ids) as ids (id)
        where job_end.bucket = step.bucket
          and is_done
          and ids.id < coalesce(-source.after[1], 9223372036854775807)
        order by ids.id desc
      ) as ended
      cross join lateral (
        select
          queue, kind, priority, payload, coalesce(enqueued_at, entered_at) as enqueued_at, coalesce(failed, 0) as failed,
          coalesce(crashes, 0) as crashes, failures, links, meta
        from holdfast.job
        where job.id = ended.id
        order by entry desc
        limit 1
      ) as entered
      where source.name = 'done'
        and (select true from holdfast.job_archive where job_archive.id = ended.id) is null
        and exists (select from walked)
      limit (select $11::integer)
    ) as looked
  ) as numbered
  where matches
    or number = $11::integer
  limit $9::integer + 1
),
listed as materialized (
  select * from by_id
  union all
  select * from running
  union all
  select * from stopped
  union all
  select * from ready
  union all
  select * from waiting
  union all
  select * from done
  union all
  select * from archived
),
-- A source is complete up to the first position at which one of its scans stopped.
cut as materialized (
  select source, min(place) as place, sum(number) as scanned from listed where is_cut group by source
),
found as materialized (
  select listed.*
  from listed
  left join cut using (source)
  where matches
    and (cut.place is null or listed.place <= cut.place)
    and (source = 'id' or not exists (select from by_id where by_id.id = listed.id))
),
shown as materialized (
  select * from found order by part, place limit $9::integer
),
source_state as materialized (
  select
    source.name,
    (select count(*) from found where found.source = source.name) as found,
    cut.place as "cutAt",
    coalesce(cut.scanned, 0) as scanned
  from source
  left join cut on cut.source = source.name
),

-- part: is_wanted
  (
    ($3::text[] is null or kind = any($3))
    and ($4::text[] is null or links -> 'lane' ->> 'name' = any($4))
    and (changed_at < (select since from period)) is not true
    and (changed_at >= (select until from period)) is not true
    and not exists (
      select
      from wanted_text
      where position(
          word in lower(concat(
            coalesce(error ->> 'name', failures -> -1 ->> 'name'), ': ', coalesce(error ->> 'message', failures -> -1 ->> 'message')
          ))
        ) = 0
        and (
          is_error
          or not (
            id::text = word
            or position(word in lower(kind)) > 0
            or exists (select from requested where requested.key = queue and position(word in lower(requested.name)) > 0)
          )
        )
    )
    and not exists (
-- include: missing_value
    )
  )

-- part: missing_value
-- The values in wanted_value that a job's payload and meta do not contain. A list has each of its elements as a value. PostgreSQL cannot
-- read a part of JSON that contains the character \u0000.
  select
  from wanted_value
  where case
    when position('\u0000' in (case wanted_value.source when 'meta' then meta else payload end)::text) > 0 then true
    when json_typeof((case wanted_value.source when 'meta' then meta else payload end) #> path) = 'array'
    then value not in (
      select coalesce(element, 'null')
      from json_array_elements_text((case wanted_value.source when 'meta' then meta else payload end) #> path) as element
    )
    else coalesce((case wanted_value.source when 'meta' then meta else payload end) #>> path, 'null') <> value
  end

-- part: recent_history
-- The jobs that ended last. Ends are appended in the order in which they happen, so no index is needed to read the
-- last pages. Reads the last $1 pages of today's stopped jobs. From job_end, reads the last pages until they contain 5,000 done jobs or the
-- ends of a whole minute, but at most $1 pages. All ends since counted_from have been read.
today as materialized (
  select
    date_trunc('day', clock_timestamp() at time zone 'UTC') at time zone 'UTC' as began_at,
    pg_relation_size(coalesce(
      to_regclass(format(
        '%I.%I', holdfast.notification_channel(), 'job_stopped_' || to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD')
      )),
      'holdfast.job_stopped_default'::regclass
    )) / current_setting('block_size')::integer as pages
),
ends_now as materialized (
  select oid, coalesce(began_at, '-infinity') as began_at, coalesce(ended_at, 'infinity') as ended_at,
    (pg_relation_size(oid) / current_setting('block_size')::integer)::integer as pages
  from (
    select
      inhrelid as oid,
      substring(pg_get_expr(relpartbound, inhrelid) from 'FROM \(''([^'']+)''\)')::timestamptz as began_at,
      substring(pg_get_expr(relpartbound, inhrelid) from 'TO \(''([^'']+)''\)')::timestamptz as ended_at
    from pg_inherits
    join pg_class on pg_class.oid = inhrelid
    where inhparent = 'holdfast.job_end'::regclass
  ) as partition
  where began_at is null
    or clock_timestamp() between began_at and ended_at
  order by began_at desc nulls last
  limit 1
),
-- Reads backwards in steps of 1, 2, 4, … pages.
page_step as materialized (
  with recursive step as (
    select pages as page, 1 as width, 0::bigint as jobs, clock_timestamp() as oldest_at from ends_now
    union all
    select greatest(0, step.page - step.width), step.width * 2, step.jobs + looked.jobs, least(step.oldest_at, looked.oldest_at)
    from step
    cross join lateral (
      select coalesce(sum(cardinality(ids)), 0) as jobs, min(ended_at) as oldest_at
      from holdfast.job_end
      where ended_at >= (select began_at from ends_now)
        and ended_at < (select ended_at from ends_now)
        and job_end.tableoid = (select oid from ends_now)
        and ctid >= format('(%s,0)', greatest(0, step.page - step.width))::tid
        and ctid < format('(%s,0)', step.page)::tid
        and is_done
    ) as looked
    where step.page > 0
      and step.page > (select pages from ends_now) - $1::integer
      and step.jobs < 5000
      and step.oldest_at > clock_timestamp() - interval '1 minute'
  )
  select min(page) as first from step
),
recent_end as materialized (
  select *
  from (
    select ids, claimed_at, ended_at, sum(cardinality(ids)) over (order by ended_at desc rows unbounded preceding) as jobs
    from holdfast.job_end
    where ended_at >= (select began_at from ends_now)
      and ended_at < (select ended_at from ends_now)
      and job_end.tableoid = (select oid from ends_now)
      and ctid >= (select format('(%s,0)', first) from page_step)::tid
      and is_done
  ) as counted
  where jobs - cardinality(ids) < 5000
),
tail as materialized (
  select
    entered.id, entered.queue, 'done' as state, entered.enqueued_at, recent_end.claimed_at, recent_end.ended_at, entered.failed,
    entered.crashes
  from recent_end
  cross join lateral unnest(recent_end.ids) as ended (id)
  cross join lateral (
    select
      id, queue, coalesce(enqueued_at, entered_at) as enqueued_at, coalesce(failed, 0) as failed, coalesce(crashes, 0) as crashes
    from holdfast.job
    where job.id = ended.id
    order by entry desc
    limit 1
  ) as entered
  union all
  select id, queue, state, enqueued_at, claimed_at, ended_at, failed, crashes
  from holdfast.job_stopped
  where ended_at >= (select began_at from today)
    and ended_at < (select began_at + interval '1 day' from today)
    and ctid >= (select format('(%s,0)', greatest(0, pages - $1::integer)) from today)::tid
),
counted_from as materialized (
  select clock.until, greatest(
    clock.until - interval '1 minute',
    began_at,
    (select began_at from ends_now),
    -- If all pages were read, the oldest end time does not limit the period.
    case when pages > $1::integer then (select min(ended_at) from tail where state <> 'done') end,
    case
      when (select first from page_step) > 0 or exists (select from recent_end where jobs >= 5000) then (select min(ended_at) from recent_end)
    end
  ) as at
  from today
  cross join (select clock_timestamp() as until offset 0) as clock
),

-- part: delivery_columns
-- The columns of a delivery and its instance.
  delivery.instance,
  instance.name as "instanceName",
  instance.host,
  instance.os_pid as "osPid",
  delivery.fence::float8 as fence,
  (extract(epoch from delivery.started_at) * 1000)::float8 as "startedAt",
  (extract(epoch from delivery.finished_at) * 1000)::float8 as "finishedAt",
  (extract(epoch from delivery.expires_at) * 1000)::float8 as "expiresAt",
  greatest(0, extract(epoch from clock_timestamp() - coalesce(delivery.finished_at, delivery.started_at)) * 1000)::float8 as "forMs",
