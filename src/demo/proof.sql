-- Counts the violations in the company's data. Each row of the result describes one of Holdfast's guarantees: the number of checked effects,
-- the number of violations, and an example. The whole statement must use a single snapshot.

-- name: proof
with
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
nights as (
  select night, (select count(*) from report where report.night = each_night.night) as reports
  from (
    select generate_series(min(night), max(night), interval '10 seconds') as night
    from report
  ) each_night
),
bookings as (
  select event, count(*) filter (where is_booking) as bookings
  from (
    select event, true as is_booking from booking
    union all
    select event, false from acknowledged
  ) mention
  group by event
),
usage as (
  select 'exports of customer ' || customer as place, 1 as max, began_at, ended_at, written_by from export
  union all
  select 'exports', 3, began_at, ended_at, written_by from export
  union all
  select 'mails to ' || domain, 2, began_at, ended_at, written_by from step where step = 'mail'
),
-- If one export or mail ends at the same time as another one begins, counts the end first, because the two do not overlap.
changes as (
  select *, sum(change) over (partition by place order by at, change rows unbounded preceding) as in_use
  from (
    select place, max, began_at as at, 1 as change, written_by from usage
    union all
    select place, max, ended_at, -1, written_by from usage
  ) change
),
numbered as (
  select *, row_number() over (partition by city order by number, id) as place
  from building
  where number is not null
),
expected as (
  select 'write-invoice' as kind, id as subject from "order" where billed_at is not null
  union all
  select kind, id from customer, unnest(array['account', 'contract', 'mail', 'call']) as kind
),
jobs as (
  select
    kind,
    (payload->>case kind when 'write-invoice' then 'order' else 'customer' end)::integer as subject,
    count(*) as jobs,
    count(*) filter (where state = 'done') as done
  from (
    select kind, payload, 'alive' as state from holdfast.job_live
    union all
    select kind, payload, 'alive' from holdfast.waiting
    union all
    select kind, payload, state from holdfast.job_history
  ) everywhere
  group by 1, 2
),
written as (
  select kind, subject, count(*) as effects
  from (
    select 'write-invoice' as kind, order_id as subject from invoice
    union all
    select step, customer from step
  ) effect
  group by kind, subject
),
job_ends as (
  select kind, subject, coalesce(jobs, 0) as jobs, coalesce(done, 0) as done, coalesce(effects, 0) as effects
  from expected
  left join jobs using (kind, subject)
  left join written using (kind, subject)
),
checks (promise, wrong, example) as (
  -- No earlier holder writes after a later holder. The IDs have the same order as the writes, because a transaction that guards a name
  -- waits until the previous transaction that guarded it has ended.
  select
    1,
    fence < largest_before or (fence = largest_before and written_by <> written_by_before),
    format('%s: fence %s by %s after %s', place, fence, written_by, largest_before)
  from in_order
  union all
  -- If two instances read and wrote the books at the same time, the numbers or the balances would be wrong.
  select
    2,
    number <> row_number() over (order by id) or balance <> sum(amount) over (order by id),
    format('entry %s of %s', number, written_by)
  from entry
  union all
  -- Each night from the first report to the last has one report, a recorded gap, or a tick that has not finished.
  select
    3,
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
      ),
    format('the night of %s has %s reports', night, reports)
  from nights
  union all
  -- Each event is booked exactly once. The payment provider never received an acknowledgement for an event that was not booked.
  select 4, bookings <> 1, format('event %s has %s bookings', event, bookings) from bookings
  union all
  select 5, in_use > max, format('%s at the same time: %s, with %s', in_use, place, written_by) from changes where change = 1
  union all
  select 6, number <> place, format('%s has number %s at place %s, by %s', city, number, place, written_by) from numbered
  union all
  -- Each job exists exactly once. A job's effect exists exactly once after the job is done, and does not exist before.
  select
    7,
    jobs <> 1 or effects <> done,
    format('%s %s: %s jobs, %s done, %s effects', kind, subject, jobs, done, effects)
  from job_ends
  union all
  -- No step begins before the steps that it waits for have ended.
  select
    8,
    not exists (
      select
      from step before
      where before.customer = after.customer
        and before.step = earlier
        and before.ended_at <= after.began_at
    ),
    format('customer %s: %s before %s', after.customer, later, earlier)
  from (
    values ('contract', 'account'), ('mail', 'account'), ('call', 'contract'), ('call', 'mail')
  ) as rule (later, earlier)
  join step after on after.step = later
)
select
  invariant,
  count(example) as checked,
  count(*) filter (where wrong) as violations,
  min(example) filter (where wrong) as example
from (
  values
    (1, 'holders ≤ 1'),
    (2, 'no update is lost'),
    (3, 'one run per tick'),
    (4, 'one effect per delivery'),
    (5, 'permits ≤ limit'),
    (6, 'no gap and no double'),
    (7, 'every job ends once'),
    (8, 'workflows keep their order')
) as promises (promise, invariant)
left join checks using (promise)
group by promise, invariant
order by promise
