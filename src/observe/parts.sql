-- Common table expressions that several statements share. A line `-- include: used_queue` in a statement stands for the part of
-- that name. Each part ends with the comma before the next expression.

-- part: used_queue
-- The queues that are known by name, and those that have jobs in the tables job or waiting. Each queue costs one step in job_order
-- and one in waiting_queue, whatever the number of jobs.
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
-- The jobs that run, found by the claims because no index lists them. Each job is read by its id, however few the planner expects.
running_job as materialized (
  select distinct on (job.id) job.id, job.queue, claim.session, claim.claimed_at
  from (select fence, session, max_seq, claimed_at, unnest(jobs) as id from holdfast.claim) as claim
  cross join lateral (
    select id, queue
    from holdfast.job
    where job.id = claim.id
      and (job.fence = claim.fence or job.session is null and job.seq <= claim.max_seq)
    offset 0
  ) as job
  order by job.id, claim.fence desc
),
