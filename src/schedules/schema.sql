-- Schedules: the next tick of each (schedule), what ran (tick), ticks without a run and the reason (gap), the instances that declare
-- each schedule (schedule_member), and the rules over time (schedule_rule).

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
  max_late integer not null,
  reruns boolean not null,
  last_instance text
) with (fillfactor = 50);
comment on table holdfast.schedule is
  'Schedules. Whoever changes a row here, or begins a run, has the row locked meanwhile.';
comment on column holdfast.schedule.key is 'The key of the name by which it was first known, as lock_key() makes it from namespace and schedule/<name>.';
comment on column holdfast.schedule.namespace is 'The namespace of the schedule.';
comment on column holdfast.schedule.name is 'Its name.';
comment on column holdfast.schedule.rule is 'The rule that the code of the fleet says.';
comment on column holdfast.schedule.override is 'The rule that an operator has set, which goes before; null when there is none.';
comment on column holdfast.schedule.superseded_rules is 'Rules of its code from before: whoever declares one of them is no new deployment.';
comment on column holdfast.schedule.next_at is 'The next tick that is not settled; null when the rule has no more. Every tick before it is in tick or gap.';
comment on column holdfast.schedule.settled_at is 'The tick that was settled last.';
comment on column holdfast.schedule.paused_at is 'Since when an operator keeps it from running; null when nobody does.';
comment on column holdfast.schedule.overlap is 'What becomes of a tick while a run is there: skip, queue, allow or replace.';
comment on column holdfast.schedule.missed is 'What becomes of missed ticks: skip, latest or all.';
comment on column holdfast.schedule.max_late is 'For all: how many of them run late, at most.';
comment on column holdfast.schedule.reruns is 'Whether a tick runs again when its instance has died.';
comment on column holdfast.schedule.last_instance is 'The instance that began the last run.';
create index schedule_next_at on holdfast.schedule (next_at);
create index schedule_named on holdfast.schedule (namespace, name);

create table holdfast.schedule_name (
  key bigint primary key,
  schedule bigint not null
);
comment on table holdfast.schedule_name is 'Further names of schedules: those that came later, for a schedule that was renamed.';
comment on column holdfast.schedule_name.key is 'The key of the name.';
comment on column holdfast.schedule_name.schedule is 'The key of the schedule that it leads to.';

create table holdfast.schedule_member (
  schedule bigint not null,
  instance text not null,
  session integer not null,
  rule text not null,
  since timestamptz not null default clock_timestamp(),
  primary key (schedule, instance)
);
comment on table holdfast.schedule_member is 'Which instances have a schedule in their code, and with which rule.';
comment on column holdfast.schedule_member.schedule is 'The key of the schedule.';
comment on column holdfast.schedule_member.instance is 'The instance.';
comment on column holdfast.schedule_member.session is 'The number of its epoch; the row means nothing once that is not present.';
comment on column holdfast.schedule_member.rule is 'The rule that its code says.';
comment on column holdfast.schedule_member.since is 'Since when; the same in all its epochs.';
create index schedule_member_instance on holdfast.schedule_member (instance);

create table holdfast.schedule_rule (
  schedule bigint not null,
  since timestamptz not null,
  rule text not null,
  primary key (schedule, since)
);
comment on table holdfast.schedule_rule is 'Which rule was in force, until the next row of the schedule: its ticks after that moment count.';
comment on column holdfast.schedule_rule.schedule is 'The key of the schedule.';
comment on column holdfast.schedule_rule.since is 'The moment of the change.';
comment on column holdfast.schedule_rule.rule is 'The rule.';

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
  primary key (schedule, at, extra)
) with (fillfactor = 80);
comment on table holdfast.tick is 'Ticks that run, or ran: one row for each.';
comment on column holdfast.tick.schedule is 'The key of the schedule.';
comment on column holdfast.tick.at is 'The tick; of an extra run, when it was asked for.';
comment on column holdfast.tick.extra is 'Whether it was asked for beside the rule.';
comment on column holdfast.tick.state is 'waiting: somebody is to begin it. running. done: its handler returned. failed: it threw, or took too long. cancelled: it was told to stop. broken: its instance died, and it is not to run again.';
comment on column holdfast.tick.session is 'The number of the epoch that runs it, or ran it last.';
comment on column holdfast.tick.instance is 'The instance that runs it, or ran it last.';
comment on column holdfast.tick.fence is 'The fence of its last attempt. Whoever writes about a run must know it.';
comment on column holdfast.tick.attempt is 'How often it was started.';
comment on column holdfast.tick.crashes is 'How many instances died while they ran it.';
comment on column holdfast.tick.settled_at is 'When it was decided that it runs.';
comment on column holdfast.tick.started_at is 'When its last attempt began.';
comment on column holdfast.tick.ended_at is 'When it ended.';
comment on column holdfast.tick.stopping is 'Why its run is to stop; null when it is not.';
comment on column holdfast.tick.error is 'Why it did not come to its end: name, message and code.';
create index tick_active on holdfast.tick (schedule, at) where state in ('running', 'waiting');
create index tick_done on holdfast.tick (schedule, at) where state = 'done' and not extra;
create index tick_not_done on holdfast.tick (schedule, at) where state in ('failed', 'broken', 'cancelled');

create table holdfast.tick_log (
  schedule bigint not null,
  at timestamptz not null,
  extra boolean not null,
  lines text[] not null,
  primary key (schedule, at, extra)
);
comment on table holdfast.tick_log is
  'What handlers logged. Not in tick: a row that changed since the transaction of a handler began could not be ended by it, where snapshots are kept for whole transactions. Columns without a comment: see tick.';
comment on column holdfast.tick_log.schedule is 'The key of the schedule.';
comment on column holdfast.tick_log.lines is 'The last hundred lines.';

create table holdfast.gap (
  schedule bigint not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  ticks bigint not null,
  reason text not null,
  primary key (schedule, first_at)
) with (fillfactor = 50);
comment on table holdfast.gap is 'Ticks without a run; neighbours with one reason are one row.';
comment on column holdfast.gap.schedule is 'The key of the schedule.';
comment on column holdfast.gap.first_at is 'The first of them.';
comment on column holdfast.gap.last_at is 'The last of them.';
comment on column holdfast.gap.ticks is 'How many they are.';
comment on column holdfast.gap.reason is 'paused: an operator wanted it. overlap: an earlier run was there. missed: nobody took it in time. no instance: nobody who could was there. limit: more were missed than may run late.';
