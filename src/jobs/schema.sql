-- Tables of the job queue. src/jobs/README.md describes how they work together.

create sequence holdfast.job_number as bigint;
comment on sequence holdfast.job_number is
  'Numbers of jobs and of positions. A job gets its id from this sequence, and a new seq each time it returns to the table job.';

create table holdfast.queue (
  key bigint primary key,
  namespace text not null,
  name text not null,
  paused_at timestamptz,
  added_at timestamptz not null default clock_timestamp()
);
comment on table holdfast.queue is 'Names and pauses of queues. A job does not need a row here.';
comment on column holdfast.queue.key is 'Key that lock_key() derives from the namespace and queue/<name>.';
comment on column holdfast.queue.paused_at is 'Start of the pause. Null if the queue is not paused.';
comment on column holdfast.queue.added_at is 'Time when the queue was first used.';

create table holdfast.job (
  queue bigint not null,
  id bigint not null,
  entry bigint not null,
  xid xid8 not null default pg_current_xact_id(),
  entered_at timestamptz not null default clock_timestamp(),
  era integer not null,
  priority smallint not null,
  kind text not null,
  payload json not null,
  enqueued_at timestamptz,
  failed integer,
  crashes smallint,
  max_crashes smallint,
  log json[],
  failures jsonb,
  links jsonb,
  meta json
) partition by range (entered_at);
comment on table holdfast.job is
  'Jobs'' entries into their queues. Rows are only inserted. A job that returns to its queue gets another entry, and its newest entry '
  'counts. Partitions are dropped when all their jobs have ended and their retention time has passed. The function job_find returns the '
  'state of a job.';
comment on column holdfast.job.id is 'ID of the job. It never changes.';
comment on column holdfast.job.entry is 'Number of the entry. The number of a job''s first entry is the job''s ID.';
comment on column holdfast.job.xid is
  'Transaction that made the entry. Claims find an entry by the time when this transaction became visible (see frontier).';
comment on column holdfast.job.era is
  'Number of the cluster whose transaction ids the entry uses. A new era begins when the tables are restored into another cluster.';
comment on column holdfast.job.priority is 'Priority from -5 to 5. Larger numbers run first.';
comment on column holdfast.job.enqueued_at is 'Time when the job was enqueued. Null if this is its first entry.';
comment on column holdfast.job.failed is 'Number of failed attempts before this entry. Null means 0.';
comment on column holdfast.job.crashes is 'Number of workers that died while holding the job, before this entry. Null means 0.';
comment on column holdfast.job.max_crashes is 'Number of crashes after which the job is buried. Null means 3.';
comment on column holdfast.job.log is 'Last 100 lines that the handler had logged before this entry: at, attempt, number, text and data.';
comment on column holdfast.job.failures is 'Last 20 attempts that failed or crashed: error, time and instance.';
comment on column holdfast.job.links is
  'Links to other jobs, trace id, unique key, deadline and options of this job only. Null for most jobs. The value moves with the job from '
  'table to table.';
comment on column holdfast.job.meta is
  'JSON object that the caller stored with the job, such as tags or a request id. Null if it is empty. The value moves with the job.';
create index job_order on holdfast.job (queue, priority, era, xid, entry);
create index job_id on holdfast.job (id);
-- Finds the jobs that occupy a lane's slots.
create index job_lane on holdfast.job (((links->'lane'->>'key')::bigint), entry) where links ? 'lane';
create index job_workflow on holdfast.job (((links->>'workflow')::bigint)) where links ? 'workflow';

create table holdfast.job_default partition of holdfast.job default;
comment on table holdfast.job_default is 'Entries from a time whose partition did not exist yet.';

create table holdfast.frontier (
  queue bigint not null,
  priority smallint not null,
  number bigint not null,
  era integer not null,
  base pg_snapshot not null,
  upto pg_snapshot not null,
  at_xid xid8 not null,
  at_entry bigint not null,
  is_read boolean not null,
  primary key (queue, priority, number)
) with (autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_scale_factor = 0.05);
comment on table holdfast.frontier is
  'Position up to which each level (a queue and a priority) has been claimed. Each claim inserts a row, and the row with the largest number '
  'is current. The primary key makes a second claim of the same jobs fail.';
comment on column holdfast.frontier.priority is 'Priority of the level. See job.';
comment on column holdfast.frontier.era is 'Era whose entries are being read. Earlier eras have been read completely.';
comment on column holdfast.frontier.base is 'Entries of transactions that this snapshot sees have been read.';
comment on column holdfast.frontier.upto is
  'The current window contains the entries of transactions that this snapshot sees and that base does not see.';
comment on column holdfast.frontier.at_xid is 'Position in the window: transaction of the last entry that was read.';
comment on column holdfast.frontier.at_entry is 'Position in the window: last entry that was read.';
comment on column holdfast.frontier.is_read is 'Whether the window has been read completely. upto is the base of the next window.';

create table holdfast.job_skipped (
  entry bigint primary key,
  id bigint not null,
  queue bigint not null,
  priority smallint not null,
  kind text not null,
  has_key boolean not null
);
comment on table holdfast.job_skipped is
  'Ready entries that a claim has skipped, because the worker does not know their kind, or because a transaction was using their unique '
  'key. Later claims read these entries.';
comment on column holdfast.job_skipped.entry is 'Number of the entry in job.';
comment on column holdfast.job_skipped.priority is 'Priority of the job. See job.';
comment on column holdfast.job_skipped.has_key is 'Whether the job has a unique key.';
create index job_skipped_queue on holdfast.job_skipped (queue, kind, priority, entry);

create table holdfast.job_removed (
  entry bigint primary key,
  queue bigint not null,
  removed_at timestamptz not null default clock_timestamp()
);
comment on table holdfast.job_removed is 'Ready entries that will never be claimed, because the job was cancelled, replaced or entered again.';
comment on column holdfast.job_removed.entry is 'Number of the entry in job.';
create index job_removed_queue on holdfast.job_removed (queue);

create table holdfast.job_deadline (
  id bigint primary key,
  start_by timestamptz not null
);
comment on table holdfast.job_deadline is
  'Jobs with a deadline that no worker has claimed yet. A claim of the job deletes the row. When start_by has passed, maintenance moves the '
  'job to job_stopped with the state expired.';
comment on column holdfast.job_deadline.id is 'ID of the job.';
comment on column holdfast.job_deadline.start_by is 'Time after which no worker claims the job. links.startBy of the job has the same value.';
create index job_deadline_start_by on holdfast.job_deadline (start_by);

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
  log json[],
  failures jsonb,
  links jsonb,
  meta json,
  stage text not null default 'time',
  lane bigint,
  rank smallint,
  seq bigint,
  unmet integer
);
comment on table holdfast.waiting is
  'Jobs that may not run yet: delayed jobs, failed jobs before a retry, and jobs that must wait for other jobs. Columns without a comment: '
  'see job.';
comment on column holdfast.waiting.run_at is 'Earliest start.';
comment on column holdfast.waiting.stage is
  'Reason for the wait. time: the job is waiting for run_at, and then for admission. jobs: other jobs must end first. lane: the job is '
  'waiting in its lane. budget: the job has its place in its lane, if it has one, and is waiting for a budget or for the turn of its group.';
comment on column holdfast.waiting.lane is 'Key of the row of the table lane for which the job is waiting. Null in the stages time and jobs.';
comment on column holdfast.waiting.rank is 'Negated priority. Smaller numbers leave the list first.';
comment on column holdfast.waiting.seq is
  'Position in the list among jobs with the same priority. 1,000 units are a round, in which each group of jobs gets its turn.';
comment on column holdfast.waiting.unmet is 'Number of jobs that must end first, in the stage jobs.';
-- Finds one queue's waiting jobs, for operators who inspect the queue.
create index waiting_queue on holdfast.waiting (queue, run_at, id);
create index waiting_run_at on holdfast.waiting (run_at) where stage = 'time';
create index waiting_lane on holdfast.waiting (lane, rank, seq) where lane is not null;
-- Finds the last position of a group.
create index waiting_group on holdfast.waiting (lane, rank, ((links->'group'->>'name')), seq) where stage = 'budget' and links ? 'group';
create index waiting_workflow on holdfast.waiting (((links->>'workflow')::bigint)) where links ? 'workflow';

create table holdfast.job_stopped (
  id bigint not null,
  queue bigint not null,
  priority smallint not null,
  kind text not null,
  payload json not null,
  state text not null,
  error json,
  enqueued_at timestamptz not null,
  claimed_at timestamptz,
  ended_at timestamptz not null default clock_timestamp(),
  session integer,
  fence bigint,
  failed integer not null,
  crashes smallint not null,
  max_crashes smallint not null,
  progress json,
  log json[],
  failures jsonb,
  links jsonb,
  meta json
) partition by range (ended_at);
comment on table holdfast.job_stopped is
  'Jobs that ended without success: cancelled, expired, discarded or buried. Partitioned by the day (UTC) on which they ended. Expired partitions '
  'are dropped. Columns without a comment: see job. The view job_history shows these jobs and those that are done.';
comment on column holdfast.job_stopped.state is
  'cancelled: a caller or an operator cancelled the job. expired: no worker claimed the job before its deadline. discarded: the handler '
  'discarded it. buried: the job failed permanently, and can be retried or redriven.';
comment on column holdfast.job_stopped.progress is 'Last progress that the handler reported.';
comment on column holdfast.job_stopped.error is 'Error that ended the job: name, message and code.';
comment on column holdfast.job_stopped.claimed_at is 'Time of the last claim. Null if the job was never claimed.';
comment on column holdfast.job_stopped.session is 'Number of the epoch that ran the last attempt. Null if there was no attempt.';
comment on column holdfast.job_stopped.fence is 'Fencing token of the last claim.';
create unique index job_stopped_id on holdfast.job_stopped (id, ended_at);
-- Logical replication needs an identity for updates and deletes. An index is used because "pg_restore --clean" cannot drop the primary
-- key of a partition.
alter table holdfast.job_stopped replica identity using index job_stopped_id;
create index job_stopped_state on holdfast.job_stopped (queue, state, id);
create index job_stopped_workflow on holdfast.job_stopped (((links->>'workflow')::bigint)) where links ? 'workflow';

create table holdfast.job_stopped_default partition of holdfast.job_stopped default;
alter table holdfast.job_stopped_default replica identity using index job_stopped_default_id_ended_at_idx;
comment on table holdfast.job_stopped_default is 'Jobs that ended without success on a day whose partition did not exist yet.';

create table holdfast.job_end (
  bucket bigint not null,
  fence bigint not null,
  session integer not null,
  claimed_at timestamptz not null,
  ended_at timestamptz not null default clock_timestamp(),
  is_done boolean not null,
  ids bigint[] not null,
  results json
) partition by range (ended_at);
comment on table holdfast.job_end is
  'Attempts that have ended: a row for each statement that recorded outcomes, claim and bucket. Rows are only inserted. Jobs that did not '
  'succeed are also in job_history, waiting or, with another entry, in job.';
comment on column holdfast.job_end.bucket is 'The value of job_bucket() for each of the ids. Used to find a job''s end.';
comment on column holdfast.job_end.fence is 'Fencing token of the claim.';
comment on column holdfast.job_end.session is 'Number of the epoch that claimed the jobs.';
comment on column holdfast.job_end.is_done is 'Whether the handlers returned. Otherwise the jobs were cancelled, retried and so on.';
comment on column holdfast.job_end.ids is 'IDs of the jobs, in ascending order.';
comment on column holdfast.job_end.results is
  'Return values in the order of ids: [value], or [] if the handler returned nothing. Null if no handler returned anything.';
create index job_end_bucket on holdfast.job_end (bucket, fence);
create index job_end_ended_at on holdfast.job_end using brin (ended_at);

create table holdfast.job_end_default partition of holdfast.job_end default;
comment on table holdfast.job_end_default is 'Ends from a time whose partition did not exist yet.';

create table holdfast.job_kind (
  queue bigint not null,
  kind text not null,
  input_schema json,
  keep_days integer,
  registered_at timestamptz not null default clock_timestamp(),
  primary key (queue, kind)
);
comment on table holdfast.job_kind is
  'Kinds of jobs that workers have registered. The dashboard and the command line use these rows to offer kinds and to check inputs. '
  'Maintenance deletes a row when no worker has registered the kind for the retention time.';
comment on column holdfast.job_kind.queue is 'Key of the queue in the definition.';
comment on column holdfast.job_kind.input_schema is
  'JSON schema of the input. Null if the definition has no schema, or has a schema that cannot be converted.';
comment on column holdfast.job_kind.keep_days is
  'Number of days for which ended jobs are kept, if this is longer than the retention time. Null if the definition sets no such number.';
comment on column holdfast.job_kind.registered_at is 'Time when a worker last registered the kind, accurate to a day.';

create table holdfast.job_archive (
  id bigint primary key,
  queue bigint not null,
  priority smallint not null,
  kind text not null,
  payload json not null,
  state text not null,
  result json,
  error json,
  enqueued_at timestamptz not null,
  claimed_at timestamptz,
  ended_at timestamptz not null,
  session integer,
  fence bigint,
  failed integer not null,
  crashes smallint not null,
  max_crashes smallint not null,
  progress json,
  log json[],
  failures jsonb,
  links jsonb,
  meta json,
  keep_until timestamptz not null
);
comment on table holdfast.job_archive is
  'Ended jobs whose kind is kept for longer than the retention time. Maintenance moves them here before it drops their partitions. Columns '
  'without a comment: see job_stopped.';
comment on column holdfast.job_archive.priority is 'Priority of the job. See job.';
comment on column holdfast.job_archive.failed is 'Number of failed attempts.';
comment on column holdfast.job_archive.crashes is 'Number of workers that died while holding the job.';
comment on column holdfast.job_archive.max_crashes is 'Number of crashes after which the job would have been buried.';
comment on column holdfast.job_archive.log is 'Last 100 lines that the handler had logged. See job.';
comment on column holdfast.job_archive.failures is 'Last 20 attempts that failed or crashed. See job.';
comment on column holdfast.job_archive.links is 'Links of the job when it ended. See job.';
comment on column holdfast.job_archive.meta is 'JSON object that the caller stored with the job. See job.';
comment on column holdfast.job_archive.result is 'Return value of the handler. Null if it returned nothing.';
comment on column holdfast.job_archive.keep_until is 'Time after which maintenance deletes the row.';
create index job_archive_state on holdfast.job_archive (queue, state, id);
create index job_archive_keep_until on holdfast.job_archive (keep_until);

create table holdfast.job_note (
  id bigint not null,
  fence bigint not null,
  noted_at timestamptz not null default clock_timestamp(),
  started boolean not null default false,
  cancelled text,
  progress json,
  log json[],
  primary key (id, fence)
);
comment on table holdfast.job_note is 'Notes about a running job. Most jobs have no row in this table.';
comment on column holdfast.job_note.fence is 'Fencing token of the claim.';
comment on column holdfast.job_note.started is
  'Set before a suspect runs. A suspect is a job that may have killed a worker. A further crash is counted for the job only if this column '
  'is set.';
comment on column holdfast.job_note.cancelled is 'Reason for the cancellation. Null if the job was not cancelled.';
comment on column holdfast.job_note.progress is 'Progress that the handler reported: a number or an object.';
comment on column holdfast.job_note.log is 'Last 100 lines that the handler logged during this attempt.';

create table holdfast.worker (
  session integer not null,
  number integer not null,
  instance text not null,
  queues bigint[] not null,
  kinds text[] not null default '{}',
  slots integer not null default 1,
  sleeping boolean not null default false,
  since timestamptz not null default clock_timestamp(),
  primary key (session, number)
) with (fillfactor = 50);
comment on table holdfast.worker is
  'Workers, alive or dead. Only an epoch with a row here can claim jobs. A dead epoch''s row remains until all its claims are deleted.';
comment on column holdfast.worker.session is 'The epoch''s number. See instance.';
comment on column holdfast.worker.number is 'Number of the worker in its instance.';
comment on column holdfast.worker.queues is 'Keys of the queues that the worker serves.';
comment on column holdfast.worker.kinds is 'Kinds of jobs that the worker claims. Empty while it closes.';
comment on column holdfast.worker.slots is 'Number of jobs that the worker runs at the same time.';
comment on column holdfast.worker.sleeping is 'Whether the worker is idle and wants a notification about new jobs.';

create table holdfast.claim (
  fence bigint primary key,
  session integer not null,
  token bigint not null,
  ids bigint[] not null,
  linked jsonb,
  place_ids bigint[],
  place_keys bigint[],
  place_weights integer[],
  claimed_at timestamptz not null default clock_timestamp()
);
-- Stores the ids uncompressed, because compression would cost more than writing them.
alter table holdfast.claim alter column ids set storage external;
alter table holdfast.claim alter column place_ids set storage external;
alter table holdfast.claim alter column place_keys set storage external;
alter table holdfast.claim alter column place_weights set storage external;
comment on table holdfast.claim is
  'Claims: the jobs that one statement claimed. A job is running if a claim contains its id and job_end contains no end of this claim for '
  'it. Only the owner of a claim can record ends.';
comment on column holdfast.claim.session is 'Number of the epoch that claimed the jobs.';
comment on column holdfast.claim.token is 'Token that the worker chose. The worker uses the token to find the claim if the response was lost.';
comment on column holdfast.claim.ids is 'IDs of the jobs. The row is deleted when all of them have ended.';
comment on column holdfast.claim.linked is 'The jobs with unique keys: id, queue, kind and links. Null if there are none.';
comment on column holdfast.claim.place_ids is
  'IDs of the jobs that have a place in a row of the table lane. A job with several places is listed once for each. Null if there are none.';
comment on column holdfast.claim.place_keys is 'Keys of these rows, in the order of place_ids.';
comment on column holdfast.claim.place_weights is 'Weights of the jobs in these rows, in the order of place_ids.';

create table holdfast.unique_job (
  queue bigint not null,
  kind text not null,
  key text not null,
  id bigint not null,
  until text not null,
  expires_at timestamptz,
  primary key (queue, kind, key)
);
comment on table holdfast.unique_job is 'Unique keys that are in use. A job without a row in this table holds no key.';
comment on column holdfast.unique_job.key is 'Idempotency key, unique in its queue and kind.';
comment on column holdfast.unique_job.id is 'ID of the job that holds the key.';
comment on column holdfast.unique_job.until is
  'Time when the key becomes free. started: when the job is claimed. ended: when the job ends. window: at expires_at, or when the job is '
  'cancelled.';
comment on column holdfast.unique_job.expires_at is 'End of the window. Null if there is no window.';
create index unique_job_expires_at on holdfast.unique_job (expires_at) where expires_at is not null;

create table holdfast.lane (
  key bigint not null,
  version bigint not null default 0,
  scope text not null default 'lane',
  queue bigint not null,
  name text not null,
  max integer not null,
  every bigint,
  burst integer,
  updated_by_job bigint not null,
  active integer not null default 0,
  pace real not null default 0,
  paced_at timestamptz not null default '-infinity',
  cursors bigint[] not null default array_fill(null::bigint, '{11}'),
  free_at timestamptz not null default '-infinity',
  due_at timestamptz,
  primary key (key, version)
) with (autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_scale_factor = 0.05);
comment on table holdfast.lane is
  'Lanes, budgets and rounds with jobs, or with a rate limit that has not recovered. Each has one row. Each change gives the row the next '
  'version, and readers start at the highest version. Therefore, readers need not skip old row versions that are kept because of a long '
  'transaction.';
comment on column holdfast.lane.key is
  'Key that lock_key() derives from the key of the queue and lane/<name> or round/<kind>, or from the namespace and budget/<name>.';
comment on column holdfast.lane.version is 'Number of changes to the row.';
comment on column holdfast.lane.scope is
  'lane: a lane of a queue. budget: a budget of a namespace. round: limits the admitted jobs of a kind with groups.';
comment on column holdfast.lane.queue is 'Queue of the job for which the row was inserted. A budget has jobs of other queues, too.';
comment on column holdfast.lane.name is 'Name of the lane or the budget, or the kind of the jobs with groups.';
comment on column holdfast.lane.max is 'Maximum sum of the weights of the jobs in the table job. For a round, see lane_round_max.';
comment on column holdfast.lane.every is
  'Time between two admissions of a job with the weight 1 at the full rate, in microseconds. Null if there is no rate limit.';
comment on column holdfast.lane.burst is 'Sum of the weights of the jobs that may be admitted immediately after an idle period.';
comment on column holdfast.lane.updated_by_job is 'ID of the latest job that entered. This job determines max and the rate limit.';
comment on column holdfast.lane.active is
  'Sum of the weights of the jobs in the table job, of jobs that have left that table and whose follow-up has not run yet, and of '
  'reservations. For a lane, also the jobs that wait for a budget.';
comment on column holdfast.lane.pace is 'Number of jobs that left in about the last 25 ms before paced_at. Used for a round only.';
comment on column holdfast.lane.paced_at is 'Time of the last change of pace.';
comment on column holdfast.lane.cursors is
  'For each priority, highest first: a seq below which no job is waiting. Null if no job with this priority is waiting.';
comment on column holdfast.lane.free_at is 'Time when the rate limit will have recovered completely.';
comment on column holdfast.lane.due_at is 'Time of the next check, unless a job enters or leaves earlier.';
create index lane_due_at on holdfast.lane (due_at) where due_at is not null;

create table holdfast.follow_up (
  number bigint primary key default nextval('holdfast.job_number'),
  session integer not null,
  keys bigint[],
  weights integer[],
  ended jsonb
);
comment on table holdfast.follow_up is
  'Effects of ended jobs on other jobs that have not been applied yet, one row for each statement that ended jobs. The process that ended the '
  'jobs applies these effects. Maintenance applies the effects on behalf of dead processes.';
comment on column holdfast.follow_up.session is 'Number of the epoch that ended the jobs. 0 if no worker ended them.';
comment on column holdfast.follow_up.keys is 'Keys of the rows of the table lane to which the jobs return room. Null if there are none.';
comment on column holdfast.follow_up.weights is 'Sum of the weights that the jobs return to each of these rows.';
comment on column holdfast.follow_up.ended is 'The ended jobs on which other jobs depend: id and state. Null if there are none.';
create index follow_up_session on holdfast.follow_up (session);

create table holdfast.lane_reservation (
  number bigint primary key default nextval('holdfast.job_number'),
  keys bigint[] not null,
  weights integer[] not null,
  expires_at timestamptz not null default clock_timestamp() + interval '5 s'
);
comment on table holdfast.lane_reservation is
  'Room in budgets that a process has reserved for the jobs that it is about to enqueue. The statement that enqueues the jobs deletes the row. '
  'If the process dies before that, maintenance deletes the row and returns the room.';
comment on column holdfast.lane_reservation.keys is 'Keys of the rows of the table lane.';
comment on column holdfast.lane_reservation.weights is 'Sum of the weights that are reserved in each of these rows.';
comment on column holdfast.lane_reservation.expires_at is 'Time after which maintenance returns the room.';
create index lane_reservation_expires_at on holdfast.lane_reservation (expires_at);

create table holdfast.dependency (
  needs bigint not null,
  job bigint not null,
  primary key (needs, job)
);
comment on table holdfast.dependency is
  'Dependencies between jobs. A row is deleted when the needed job has ended, unless that job failed and the dependent is waiting for its '
  'retry.';
comment on column holdfast.dependency.needs is 'ID of the job that must end first.';
comment on column holdfast.dependency.job is 'ID of the waiting job, whose row in the table waiting has the stage jobs.';
create index dependency_job on holdfast.dependency (job);

create table holdfast.job_step (
  job bigint not null,
  name text not null,
  kind text not null,
  fence bigint not null,
  attempt integer not null,
  started_at timestamptz not null,
  ended_at timestamptz,
  due_at timestamptz,
  event text,
  result json,
  primary key (job, name)
);
comment on table holdfast.job_step is
  'Steps that jobs'' handlers have recorded, and waits that have begun. A job without steps has no row. Rows are deleted together with the '
  'job''s history.';
comment on column holdfast.job_step.job is 'ID of the job.';
comment on column holdfast.job_step.name is 'Name of the step, unique in its job.';
comment on column holdfast.job_step.kind is
  'step: a function that has run. cursor: a value that the handler replaces. sleep: a wait until due_at. event: a wait for an event.';
comment on column holdfast.job_step.fence is 'Fencing token of the claim that recorded the step.';
comment on column holdfast.job_step.attempt is 'Number of the attempt that recorded the step.';
comment on column holdfast.job_step.ended_at is 'Time of the record. Null while the job sleeps or waits for the event.';
comment on column holdfast.job_step.due_at is 'End of the sleep, or time after which the job no longer waits for the event.';
comment on column holdfast.job_step.event is 'Name of the event for which the job waits.';
comment on column holdfast.job_step.result is
  'Return value of the function, value of the cursor, or data of the event. Null if there is none: the event did not arrive in time, for '
  'example.';

create table holdfast.job_event (
  job bigint not null,
  number integer not null,
  event text not null,
  key text,
  data json not null,
  sent_at timestamptz not null default clock_timestamp(),
  step text,
  primary key (job, number)
);
comment on table holdfast.job_event is
  'Events that were sent to jobs. Each wait receives the first event with its name that no other wait has received. Rows are deleted '
  'together with the job''s history.';
comment on column holdfast.job_event.job is 'ID of the job.';
comment on column holdfast.job_event.number is 'Position among the events of the job.';
comment on column holdfast.job_event.event is 'Name of the event.';
comment on column holdfast.job_event.key is 'Idempotency key. A second event with the same name and key is ignored. Null if there is none.';
comment on column holdfast.job_event.data is 'Data of the event. JSON null if the event has no data.';
comment on column holdfast.job_event.sent_at is 'Time when the event was sent.';
comment on column holdfast.job_event.step is 'Name of the step that has received the event. Null until then.';
