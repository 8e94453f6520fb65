create table holdfast.schedule (
  key bigint primary key,
  namespace text not null,
  name text not null,
  rule text not null,
  override text,
  superseded_rules text[] not null default '{}',
  next_at timestamptz,
  settled_at timestamptz,
  paused_at timestamptz,
  overlap text not null,
  missed text not null,
  catch_up integer not null,
  reruns boolean not null,
  last_instance text,
  job_head json,
  job_input json,
  last_job bigint,
  next_rule text,
  changed_at timestamptz
) with (fillfactor = 50);
comment on table holdfast.schedule is
  'Schedules. A statement that changes a row, or starts a run, locks the row.';
comment on column holdfast.schedule.key is 'Key of the schedule''s first name: lock_key() of namespace and schedule/<name>.';
comment on column holdfast.schedule.rule is 'Current rule in the fleet''s code.';
comment on column holdfast.schedule.override is 'Rule that an operator has set. This rule takes precedence over the rule in the code. Null if there is no override.';
comment on column holdfast.schedule.superseded_rules is 'Earlier rules in the code. An instance that declares one of these rules is not a new deployment.';
comment on column holdfast.schedule.next_at is 'Next tick that has not been settled. Null if the rule has no more ticks. Every earlier tick is in the table tick or gap.';
comment on column holdfast.schedule.settled_at is 'Last settled tick.';
comment on column holdfast.schedule.paused_at is 'Time when an operator paused the schedule. Null if it is not paused.';
comment on column holdfast.schedule.overlap is 'Handling of a tick that is due while a run exists: skip, queue, allow or replace.';
comment on column holdfast.schedule.missed is 'Handling of missed ticks: skip, latest or all.';
comment on column holdfast.schedule.catch_up is 'Maximum number of missed ticks that are caught up. Used only if missed is all.';
comment on column holdfast.schedule.reruns is 'Whether a tick runs again after its instance dies.';
comment on column holdfast.schedule.last_instance is 'Instance that started the last run.';
comment on column holdfast.schedule.job_head is 'Queue, kind and priority of the job that each tick of a stored schedule enqueues. Null if the schedule is in code.';
comment on column holdfast.schedule.job_input is 'Input of this job.';
comment on column holdfast.schedule.last_job is 'Job of the last tick of a stored schedule.';
comment on column holdfast.schedule.next_rule is 'Rule that an upsert has set and that is not in force yet.';
comment on column holdfast.schedule.changed_at is 'Time from which next_rule (or the rule of a new stored schedule) applies. Null when an instance has computed its first tick.';
create index schedule_next_at on holdfast.schedule (next_at) where job_head is null;
create index schedule_stored_due on holdfast.schedule (namespace, next_at)
where job_head is not null and paused_at is null and changed_at is null;
create index schedule_stored_changed on holdfast.schedule (namespace, changed_at) where changed_at is not null;
create index schedule_named on holdfast.schedule (namespace, name);

create table holdfast.schedule_name (
  key bigint primary key,
  schedule bigint not null
);
comment on table holdfast.schedule_name is 'Later names of renamed schedules.';
comment on column holdfast.schedule_name.schedule is 'Key of the schedule to which the name refers.';

create table holdfast.schedule_member (
  schedule bigint not null,
  instance text not null,
  session integer not null,
  rule text not null,
  job_queue text,
  job_kind text,
  since timestamptz not null default clock_timestamp(),
  primary key (schedule, instance)
);
comment on table holdfast.schedule_member is 'Instances that have a schedule in their code, each with its rule.';
comment on column holdfast.schedule_member.schedule is 'Key of the schedule.';
comment on column holdfast.schedule_member.instance is 'Instance that is a member.';
comment on column holdfast.schedule_member.session is 'Session number of the member''s epoch. The row counts only while this session is present.';
comment on column holdfast.schedule_member.rule is 'Rule in the instance''s code.';
comment on column holdfast.schedule_member.job_queue is 'Queue of the job that each tick enqueues. Null if the schedule has a function.';
comment on column holdfast.schedule_member.job_kind is 'Kind of the job that each tick enqueues. Null if the schedule has a function.';
comment on column holdfast.schedule_member.since is 'Time when the instance first joined, in any epoch.';
create index schedule_member_instance on holdfast.schedule_member (instance);

create table holdfast.schedule_rule (
  schedule bigint not null,
  since timestamptz not null,
  rule text not null,
  primary key (schedule, since)
);
comment on table holdfast.schedule_rule is 'History of the rules in force. A rule applies to the ticks after the time in the column since, until the next row of the same schedule.';
comment on column holdfast.schedule_rule.schedule is 'Key of the schedule.';
comment on column holdfast.schedule_rule.rule is 'Rule that took effect.';

create table holdfast.tick (
  schedule bigint not null,
  at timestamptz not null,
  extra boolean not null default false,
  state text not null default 'waiting',
  session integer,
  instance text,
  fence bigint,
  attempt integer not null default 0,
  crashes integer not null default 0,
  settled_at timestamptz not null default clock_timestamp(),
  started_at timestamptz,
  ended_at timestamptz,
  stopping text,
  error json,
  job bigint,
  primary key (schedule, at, extra)
) with (fillfactor = 80);
comment on table holdfast.tick is 'Runs of ticks: one row per tick that is running, has run or is waiting to run.';
comment on column holdfast.tick.schedule is 'Key of the schedule.';
comment on column holdfast.tick.at is 'Time of the tick. For an extra run, the time of the request.';
comment on column holdfast.tick.extra is 'Whether the run was requested independently of the rule.';
comment on column holdfast.tick.state is 'waiting: a member must start the run. running: an instance is running it. done: its handler returned. failed: its handler threw or timed out. cancelled: the run was stopped. broken: its instance died, and the tick will not run again.';
comment on column holdfast.tick.session is 'Session number of the epoch that is running the tick or last ran it.';
comment on column holdfast.tick.instance is 'Instance that is running the tick or last ran it.';
comment on column holdfast.tick.fence is 'Fencing token of the last attempt. Each write for a run must match this token.';
comment on column holdfast.tick.attempt is 'Number of times that the tick was started.';
comment on column holdfast.tick.crashes is 'Number of instances that died during the run.';
comment on column holdfast.tick.settled_at is 'Time when the tick was settled and its run was added.';
comment on column holdfast.tick.stopping is 'Reason to stop the run. Null if the run should continue.';
comment on column holdfast.tick.error is 'Error that ended the run: name, message and code.';
comment on column holdfast.tick.job is 'Job that the tick enqueued. Null if the schedule has a function.';
create index tick_active on holdfast.tick (schedule, at) where state in ('running', 'waiting');
create index tick_done on holdfast.tick (schedule, at) where state = 'done' and not extra;
create index tick_not_done on holdfast.tick (schedule, at) where state in ('failed', 'broken', 'cancelled');

create table holdfast.tick_log (
  schedule bigint not null,
  at timestamptz not null,
  extra boolean not null,
  lines json[] not null,
  primary key (schedule, at, extra)
);
comment on table holdfast.tick_log is
  'Handlers'' log lines. They are not in the table tick, because a handler''s repeatable-read transaction cannot update a row that changed after the transaction began. Columns without a comment: see tick.';
comment on column holdfast.tick_log.schedule is 'Key of the schedule.';
comment on column holdfast.tick_log.lines is 'Last 100 lines of the log: at, attempt, number, text and data.';

create table holdfast.gap (
  schedule bigint not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  ticks bigint not null,
  reason text not null,
  primary key (schedule, first_at)
) with (fillfactor = 50);
comment on table holdfast.gap is 'Ticks without a run. Consecutive ticks with the same reason share a row.';
comment on column holdfast.gap.schedule is 'Key of the schedule.';
comment on column holdfast.gap.first_at is 'First tick of the gap.';
comment on column holdfast.gap.last_at is 'Last tick of the gap.';
comment on column holdfast.gap.ticks is 'Number of ticks.';
comment on column holdfast.gap.reason is 'paused: an operator paused the schedule. overlap: an earlier run existed. missed: no instance started the tick in time. no instance: the schedule had no member. limit: more ticks were missed than catch_up allows.';

create table holdfast.schedule_ticker (
  namespace text primary key,
  instance text not null,
  until timestamptz not null
);
comment on table holdfast.schedule_ticker is
  'Instance that currently settles the ticks of a namespace''s stored schedules. The row only avoids duplicate work. The lock on a '
  'schedule''s row and the comparison of next_at ensure that each tick is settled once.';
comment on column holdfast.schedule_ticker.until is 'Time after which another instance may take the row over.';
