-- The proof: what would be wrong in what the company wrote, counted from its own tables. Each row is one promise of Holdfast: how
-- many effects were looked at, how many of them break it, and one of those. It is to be run in one snapshot.

-- name: proof
with
-- Holders: whatever is written under a name carries a fence, and no earlier holder writes after a later one. The order of
-- the ids is that of the writes: who guards a name waits for the end of the transaction that guarded it before.
guarded as (
  select 'books' as place, id, fence, written_by from entry
  union all
  select 'exchange rates', id, fence, written_by from exchange_rate
  union all
  select 'search index', id, term, written_by from indexed
),
in_order as (
  select
    *,
    max(fence) over earlier as largest_before,
    lag(written_by) over (partition by place order by id) as written_by_before
  from guarded
  window earlier as (partition by place order by id rows between unbounded preceding and 1 preceding)
),
holders as (
  select
    'holders ≤ 1' as invariant,
    count(*) as checked,
    count(*) filter (where wrong) as violations,
    min(format('%s: fence %s by %s after %s', place, fence, written_by, largest_before)) filter (where wrong) as example
  from (
    select *, fence < largest_before or (fence = largest_before and written_by <> written_by_before) as wrong
    from in_order
  ) each_write
),
-- The books: what is read and then written goes wrong as soon as two do it at once.
balances as (
  select
    'no update is lost' as invariant,
    count(*) as checked,
    count(*) filter (where wrong) as violations,
    min(format('entry %s of %s', number, written_by)) filter (where wrong) as example
  from (
    select *, number <> row_number() over (order by id) or balance <> sum(amount) over (order by id) as wrong
    from entry
  ) each_entry
),
-- Ticks: each night from the first report to the last has one report, or a reason why it has none, or somebody is at it.
nights as (
  select night, (select count(*) from report where report.night = each_night.night) as reports
  from (
    select generate_series(min(night), max(night), interval '10 seconds') as night
    from report
  ) each_night
),
ticks as (
  select
    'one run per tick' as invariant,
    count(*) as checked,
    count(*) filter (where wrong) as violations,
    min(format('the night of %s has %s reports', night, reports)) filter (where wrong) as example
  from (
    select
      *,
      reports > 1
      or reports = 0
        and not exists (
          select
          from holdfast.gap
          where gap.schedule = holdfast.lock_key($1, 'schedule/nightly-report')
            and night between gap.first_at and gap.last_at
        )
        and not exists (
          select
          from holdfast.tick
          where tick.schedule = holdfast.lock_key($1, 'schedule/nightly-report')
            and tick.at = night
            and tick.state <> 'done'
        ) as wrong
    from nights
  ) each_night
),
-- Deliveries: an event is booked once, and what the provider was told is booked is booked.
deliveries as (
  select
    'one effect per delivery' as invariant,
    count(*) as checked,
    count(*) filter (where wrong) as violations,
    min(format('event %s has %s bookings', event, bookings)) filter (where wrong) as example
  from (
    select event, bookings, bookings > 1 or bookings = 0 as wrong
    from (
      select event, count(*) filter (where is_booking) as bookings
      from (
        select event, true as is_booking from booking
        union all
        select event, false from acknowledged
      ) said
      group by event
    ) counted
  ) each_event
),
-- Permits and lanes: at no moment more than may be. What ended at a moment was over before what began at it.
stays as (
  select 'exports of customer ' || customer as place, 1 as max, began_at, ended_at, written_by from export
  union all
  select 'exports', 3, began_at, ended_at, written_by from export
  union all
  select 'mails to ' || domain, 2, began_at, ended_at, written_by from step where step = 'mail'
),
moments as (
  select place, max, began_at as at, 1 as change, written_by from stays
  union all
  select place, max, ended_at, -1, written_by from stays
),
permits as (
  select
    'permits ≤ limit' as invariant,
    count(*) filter (where change = 1) as checked,
    count(*) filter (where wrong) as violations,
    min(format('%s at once: %s, with %s', in_use, place, written_by)) filter (where wrong) as example
  from (
    select *, change = 1 and in_use > max as wrong
    from (
      select *, sum(change) over (partition by place order by at, change rows unbounded preceding) as in_use
      from moments
    ) counted
  ) each_moment
),
-- Cities: the numbers of a city are 1, 2, 3 …
numbers as (
  select
    'no gap and no double' as invariant,
    count(*) as checked,
    count(*) filter (where wrong) as violations,
    min(format('%s has number %s at place %s, by %s', city, number, place, written_by)) filter (where wrong) as example
  from (
    select *, number <> place as wrong
    from (
      select *, row_number() over (partition by city order by number, id) as place
      from building
      where number is not null
    ) placed
  ) each_building
),
-- Jobs: each is somewhere, in one place; and what it is to write is there once when it is done, and not before.
everywhere as (
  select id, kind, payload, 'alive' as state from holdfast.job
  union all
  select id, kind, payload, 'alive' from holdfast.waiting
  union all
  select id, kind, payload, state from holdfast.job_history
),
wanted as (
  select 'write-invoice' as kind, id as subject from "order" where billed_at is not null
  union all
  select kind, id from customer, unnest(array['account', 'contract', 'mail', 'call']) as kind
),
written as (
  select 'write-invoice' as kind, order_id as subject from invoice
  union all
  select step, customer from step
),
places as (
  select kind, (payload->>case kind when 'write-invoice' then 'order' else 'customer' end)::integer as subject, state
  from everywhere
),
jobs as (
  select
    'every job ends once' as invariant,
    count(*) as checked,
    count(*) filter (where wrong) as violations,
    min(format('%s %s: %s jobs, %s done, %s effects', kind, subject, jobs, done, effects)) filter (where wrong) as example
  from (
    select *, jobs <> 1 or effects <> done as wrong
    from (
      select
        wanted.kind,
        wanted.subject,
        coalesce(found.jobs, 0) as jobs,
        coalesce(found.done, 0) as done,
        coalesce(made.effects, 0) as effects
      from wanted
      left join (
        select kind, subject, count(*) as jobs, count(*) filter (where state = 'done') as done
        from places
        group by kind, subject
      ) found using (kind, subject)
      left join (
        select kind, subject, count(*) as effects
        from written
        group by kind, subject
      ) made using (kind, subject)
    ) counted
  ) each_job
),
-- Workflows: nothing begins before what it waits for has ended.
steps as (
  select
    'workflows keep their order' as invariant,
    count(*) as checked,
    count(*) filter (where wrong) as violations,
    min(format('customer %s: %s before %s', customer, later, earlier)) filter (where wrong) as example
  from (
    select
      after.customer,
      later,
      earlier,
      not exists (
        select
        from step before
        where before.customer = after.customer
          and before.step = earlier
          and before.ended_at <= after.began_at
      ) as wrong
    from (
      values ('contract', 'account'), ('mail', 'account'), ('call', 'contract'), ('call', 'mail')
    ) as rule (later, earlier)
    join step after on after.step = later
  ) each_step
)
select * from holders
union all
select * from balances
union all
select * from ticks
union all
select * from deliveries
union all
select * from permits
union all
select * from numbers
union all
select * from jobs
union all
select * from steps
