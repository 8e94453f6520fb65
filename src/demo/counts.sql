-- Counts a company's completed work, and the work that was done twice or not at all. The same statement reads both
-- companies' tables.

-- name: counts
select
  (select count(distinct event) from booking) as payments,
  (select count(*) - count(distinct event) from booking) as "paymentsTwice",
  -- The payment provider receives one response for each delivery. All responses after the first response for an event
  -- belong to duplicate deliveries.
  (select count(*) - count(distinct event) from acknowledged) as "duplicatesAnswered",
  (select count(distinct order_id) from invoice) as invoices,
  (
    select count(*)
    from "order"
    where billed_at < now() - interval '15 seconds'
      and not exists (select from invoice where invoice.order_id = "order".id)
  ) as "invoicesLost",
  (select count(distinct customer) from step where step = 'mail') as emails,
  (
    select count(*)
    from customer
    where created_at < now() - interval '15 seconds'
      and not exists (select from step where step.customer = customer.id and step = 'mail')
  ) as "emailsLost",
  (select count(distinct night) from report) as reports,
  (select count(*) - count(distinct night) from report) as "reportsTwice",
  (select count(*) - count(distinct number) from entry) as "updatesLost"
