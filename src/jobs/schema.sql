-- Jobs: what may run now and what runs (job), what may not run yet (waiting), what has ended (job_history), the workers (worker),
-- their claims (claim), unique keys (unique_job), lanes (lane), workflows (dependency), and follow-ups (follow_up).

create sequence holdfast.job_number as bigint;
comment on sequence holdfast.job_number is
  'Numbers of jobs, and of places in the order: a job gets its id from it, and another number each time that it comes back to the table job.';

create table holdfast.queue (
  key bigint primary key,
  namespace text not null,
  name text not null,
  paused_at timestamptz
);
comment on table holdfast.queue is 'Queues that were used. A job needs no row here; whoever pauses a queue writes it.';
comment on column holdfast.queue.key is 'The key of the name, as lock_key() makes it from namespace and queue/<name>.';
comment on column holdfast.queue.namespace is 'The namespace of the queue.';
comment on column holdfast.queue.name is 'Its name.';
comment on column holdfast.queue.paused_at is 'Since when none of its jobs is claimed; null when they are.';

create table holdfast.job (
  id bigint primary key,
  seq bigint not null,
  queue bigint not null,
  priority smallint not null,
  kind text not null,
  payload json not null,
  enqueued_at timestamptz not null default clock_timestamp(),
  session integer,
  fence bigint,
  claimed_at timestamptz,
  failed integer not null default 0,
  crashes smallint not null default 0,
  max_crashes smallint not null default 3,
  started boolean not null default false,
  cancelled text,
  progress real,
  log text[],
  failures jsonb,
  links jsonb
) with (
  -- A claim writes each row anew beside its old version, and makes no index entry while the page has room for both.
  fillfactor = 40,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.2,
  autovacuum_vacuum_cost_delay = 0
);
comment on table holdfast.job is
  'Jobs that may run now, or run. Kept small: what may not run yet is in waiting, what has ended is in job_history. No index may hold what a claim changes.';
comment on column holdfast.job.id is 'The number by which people know it; it stays the same for good.';
comment on column holdfast.job.seq is 'Its place in the order of its queue and priority. A new one each time that it comes back to this table, so that cursors which have passed the old one find it.';
comment on column holdfast.job.queue is 'The key of its queue.';
comment on column holdfast.job.priority is 'Larger goes first; from -5 to 5.';
comment on column holdfast.job.kind is 'The name of its definition.';
comment on column holdfast.job.payload is 'Its input.';
comment on column holdfast.job.enqueued_at is 'When it was enqueued.';
comment on column holdfast.job.session is 'The number of the epoch that has claimed it; null when nobody has.';
comment on column holdfast.job.fence is 'The fence of the claim. Whoever writes about a running job must know it.';
comment on column holdfast.job.claimed_at is 'When it was claimed.';
comment on column holdfast.job.failed is 'How many of its attempts have failed.';
comment on column holdfast.job.crashes is 'How many workers died while they had it.';
comment on column holdfast.job.max_crashes is 'With so many crashes it is buried.';
comment on column holdfast.job.started is 'Set before it is run by those who run what may have killed a worker: such a job is charged with another crash only if it was started.';
comment on column holdfast.job.cancelled is 'Why it is to stop; null when it is not.';
comment on column holdfast.job.progress is 'How far it is, as its handler said.';
comment on column holdfast.job.log is 'What its handler logged: the last hundred lines.';
comment on column holdfast.job.failures is 'What its attempts failed or crashed of, when and where: the last twenty.';
comment on column holdfast.job.links is 'What links it to others; null for most jobs, which nothing does. Whatever it is, it goes with the job from table to table.';
create index job_order on holdfast.job (queue, priority, seq);
-- Who has the places of a lane.
create index job_lane on holdfast.job (((links->'lane'->>'key')::bigint)) where links ? 'lane';
create index job_workflow on holdfast.job (((links->>'workflow')::bigint)) where links ? 'workflow';

create table holdfast.waiting (
  id bigint primary key,
  queue bigint not null,
  priority smallint not null,
  kind text not null,
  payload json not null,
  enqueued_at timestamptz not null default clock_timestamp(),
  run_at timestamptz not null,
  failed integer not null default 0,
  crashes smallint not null default 0,
  max_crashes smallint not null default 3,
  log text[],
  failures jsonb,
  links jsonb,
  stage text not null default 'time',
  lane bigint,
  rank smallint,
  seq bigint,
  unmet integer
);
comment on table holdfast.waiting is
  'Jobs that may not run yet: they were delayed, an attempt has failed, or others must go before them. Columns without a comment: see job.';
comment on column holdfast.waiting.id is 'Its id.';
comment on column holdfast.waiting.queue is 'The key of its queue.';
comment on column holdfast.waiting.kind is 'The name of its definition.';
comment on column holdfast.waiting.payload is 'Its input.';
comment on column holdfast.waiting.enqueued_at is 'When it was enqueued.';
comment on column holdfast.waiting.run_at is 'From then on it may run.';
comment on column holdfast.waiting.failed is 'How many of its attempts have failed. None: it was delayed by who enqueued it.';
comment on column holdfast.waiting.crashes is 'How many workers died while they had it.';
comment on column holdfast.waiting.max_crashes is 'With so many crashes it is buried.';
comment on column holdfast.waiting.stage is 'What it waits for. time: its time, and then to be let in. lane: it is parked in its lane. jobs: others must end before.';
comment on column holdfast.waiting.lane is 'The key of the lane that it is parked in.';
comment on column holdfast.waiting.rank is 'Its priority turned round, so that the smaller goes first in its lane.';
comment on column holdfast.waiting.seq is 'Its place in its lane, within its priority.';
comment on column holdfast.waiting.unmet is 'For how many jobs it waits, in the stage jobs.';
-- For people who look into one queue.
create index waiting_queue on holdfast.waiting (queue, run_at);
create index waiting_run_at on holdfast.waiting (run_at) where stage = 'time';
create index waiting_lane on holdfast.waiting (lane, rank, seq) where stage = 'lane';
create index waiting_workflow on holdfast.waiting (((links->>'workflow')::bigint)) where links ? 'workflow';

create table holdfast.job_history (
  id bigint not null,
  queue bigint not null,
  priority smallint not null,
  kind text not null,
  payload json not null,
  state text not null,
  result json,
  error json,
  enqueued_at timestamptz not null,
  claimed_at timestamptz,
  ended_at timestamptz not null default clock_timestamp(),
  session integer,
  fence bigint,
  failed integer not null,
  crashes smallint not null,
  max_crashes smallint not null,
  progress real,
  log text[],
  failures jsonb,
  links jsonb
) partition by range (ended_at);
comment on table holdfast.job_history is
  'Jobs that have ended, by the day (UTC) of their end. A day is dropped whole when its time is over. Columns without a comment: see job.';
comment on column holdfast.job_history.id is 'Its id.';
comment on column holdfast.job_history.queue is 'The key of its queue.';
comment on column holdfast.job_history.kind is 'The name of its definition.';
comment on column holdfast.job_history.payload is 'Its input.';
comment on column holdfast.job_history.state is 'done: its handler returned. cancelled: somebody cancelled it. discarded: its handler said so. buried: it failed for good, and redrive brings it back.';
comment on column holdfast.job_history.result is 'What its handler returned; null for nothing.';
comment on column holdfast.job_history.error is 'Why it did not come to its end: name, message and code.';
comment on column holdfast.job_history.enqueued_at is 'When it was enqueued.';
comment on column holdfast.job_history.claimed_at is 'When its last attempt was claimed; null when there was none.';
comment on column holdfast.job_history.ended_at is 'When it ended.';
comment on column holdfast.job_history.session is 'The number of the epoch that ended it, or died with it; null when nobody had it.';
comment on column holdfast.job_history.fence is 'The fence of its last claim.';
comment on column holdfast.job_history.failed is 'How many of its attempts have failed.';
comment on column holdfast.job_history.crashes is 'How many workers died while they had it.';
create unique index job_history_id on holdfast.job_history (id, ended_at);
-- Logical replication needs to know a row that is changed or deleted. By an index, because "pg_restore --clean" cannot drop the
-- primary key of a partition.
alter table holdfast.job_history replica identity using index job_history_id;
create index job_history_failed on holdfast.job_history (queue, state, id) where state <> 'done';
create index job_history_workflow on holdfast.job_history (((links->>'workflow')::bigint)) where links ? 'workflow';

create table holdfast.job_history_default partition of holdfast.job_history default;
alter table holdfast.job_history_default replica identity using index job_history_default_id_ended_at_idx;
comment on table holdfast.job_history_default is 'Jobs that ended on a day whose table was not there yet.';

create table holdfast.worker (
  session integer not null,
  number integer not null,
  instance text not null,
  queues bigint[] not null,
  kinds text[] not null default '{}',
  claims text not null default 'rows',
  sleeping boolean not null default false,
  since timestamptz not null default clock_timestamp(),
  primary key (session, number)
) with (fillfactor = 50);
comment on table holdfast.worker is
  'Who works, or worked when it died. Only an epoch with a row here can claim jobs; the row goes when nothing that it has claimed is left.';
comment on column holdfast.worker.session is 'The number of the epoch (see instance).';
comment on column holdfast.worker.number is 'Which of the workers of the instance.';
comment on column holdfast.worker.instance is 'The instance.';
comment on column holdfast.worker.queues is 'The keys of the queues that it serves.';
comment on column holdfast.worker.kinds is 'The names of its definitions: it claims the jobs of these kinds. Empty once it claims nothing more, because it closes.';
comment on column holdfast.worker.claims is 'How it claims: rows, which writes on the row of each job, or advisory, which locks them (see job_claim_by_lock).';
comment on column holdfast.worker.sleeping is 'Whether it wants to be told of new jobs, because it has nothing to do.';
comment on column holdfast.worker.since is 'Since when.';

create table holdfast.claim (
  fence bigint primary key,
  session integer not null,
  token bigint not null,
  jobs bigint[] not null,
  max_seq bigint,
  claimed_at timestamptz not null default clock_timestamp()
);
-- To compress it would cost more than to write it.
alter table holdfast.claim alter column jobs set storage external;
comment on table holdfast.claim is
  'Claims: which jobs were claimed together. They lead to the jobs of a dead worker; whether a job still belongs to a claim is said by its own row.';
comment on column holdfast.claim.fence is 'The fence of the claim.';
comment on column holdfast.claim.session is 'The number of the epoch that has claimed them.';
comment on column holdfast.claim.token is 'How the worker calls the claim, so that it finds one whose answer was lost.';
comment on column holdfast.claim.jobs is 'Their ids. The row goes when all of them have ended.';
comment on column holdfast.claim.max_seq is 'For a claim by advisory locks, which writes nothing on the rows of jobs: those that have come back with a larger seq are not meant any more. Null for the others.';
comment on column holdfast.claim.claimed_at is 'When.';

create table holdfast.unique_job (
  queue bigint not null,
  kind text not null,
  key text not null,
  id bigint not null,
  until text not null,
  expires_at timestamptz,
  primary key (queue, kind, key)
);
comment on table holdfast.unique_job is 'Keys of unique jobs that are held. Whoever enqueues writes its row; who has none holds no key.';
comment on column holdfast.unique_job.queue is 'The key of the queue.';
comment on column holdfast.unique_job.kind is 'The name of the definition.';
comment on column holdfast.unique_job.key is 'The key, unique in its queue and kind.';
comment on column holdfast.unique_job.id is 'The job that holds it.';
comment on column holdfast.unique_job.until is 'For how long. started: until it is claimed. ended: until it has ended. window: until expires_at, or it is cancelled.';
comment on column holdfast.unique_job.expires_at is 'From then on the window is over; null when there is none.';
create index unique_job_expires_at on holdfast.unique_job (expires_at) where expires_at is not null;

create table holdfast.lane (
  key bigint not null,
  version bigint not null default 0,
  queue bigint not null,
  name text not null,
  max integer not null,
  every bigint,
  burst integer,
  updated_by_job bigint not null,
  active integer not null default 0,
  cursors bigint[] not null default array_fill(null::bigint, '{11}'),
  free_at timestamptz not null default '-infinity',
  due_at timestamptz,
  primary key (key, version)
) with (autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_scale_factor = 0.05);
comment on table holdfast.lane is
  'Lanes that have jobs which run, may run, or are parked, or whose rate is not rested. Each has one row. Every change gives it the next version, and who looks begins with the highest: so nobody walks over versions that a forgotten transaction keeps.';
comment on column holdfast.lane.key is 'The key of its name, as lock_key() makes it from the key of the queue and lane/<name>.';
comment on column holdfast.lane.version is 'Counts its changes.';
comment on column holdfast.lane.queue is 'The key of its queue.';
comment on column holdfast.lane.name is 'Its name, one of those of the queue.';
comment on column holdfast.lane.max is 'How many of its jobs may stand in the table job.';
comment on column holdfast.lane.every is 'How many microseconds one admission takes of its rate; null when it has no rate.';
comment on column holdfast.lane.burst is 'How many its rate admits at once, after a rest.';
comment on column holdfast.lane.updated_by_job is 'The latest job that entered: its max and rate are those of the lane.';
comment on column holdfast.lane.active is 'How many of its jobs stand in the table job, or left it and were not followed up.';
comment on column holdfast.lane.cursors is
  'For each priority, the larger first, below which place nobody is parked any more; null where nobody is parked at all.';
comment on column holdfast.lane.free_at is 'When its rate will have rested.';
comment on column holdfast.lane.due_at is 'When somebody has to look at it, without that one of its jobs ends or comes.';
create index lane_due_at on holdfast.lane (due_at) where due_at is not null;

create table holdfast.follow_up (
  number bigint primary key default nextval('holdfast.job_number'),
  session integer not null,
  linked jsonb not null
);
comment on table holdfast.follow_up is
  'Jobs with links that left the table job, or ended, and what follows from it for others has not been done. Whoever ended them does it at once; those of the dead are found by the rounds.';
comment on column holdfast.follow_up.number is 'Its number.';
comment on column holdfast.follow_up.session is 'The number of the epoch that ended the job; 0 when it was ended from outside.';
comment on column holdfast.follow_up.linked is 'The job: id, queue, kind, state and links; placed is false when it did not stand in the table job.';
create index follow_up_session on holdfast.follow_up (session);

create table holdfast.dependency (
  needs bigint not null,
  job bigint not null,
  primary key (needs, job)
);
comment on table holdfast.dependency is
  'Which jobs wait for which. A row goes when the job that is needed has ended, unless it failed and the other waits until it was retried.';
comment on column holdfast.dependency.needs is 'The job that has to end.';
comment on column holdfast.dependency.job is 'The job that waits, in the stage jobs of the table waiting.';
create index dependency_job on holdfast.dependency (job);
