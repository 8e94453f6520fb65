// Plausible bugs. `npm run faults -- --mutants` plants each of them in the built package, to test whether the judge finds it.

const functions = (room: string) => `dist/${room}/functions.sql`
/** The bundled code of a room. The bundler writes it with tabs, and numbers in their shortest form. */
const code = (room: string) => `dist/${room}/index.js`

export interface Mutation {
  readonly name: string
  readonly edits: readonly (readonly [file: string, from: string | RegExp, to: string])[]
  /** Rooms and faults that trigger the bug soonest. */
  readonly onlyRooms: readonly string[]
  readonly onlyFaults: readonly string[]
  /** Expiry in seconds. */
  readonly expiry?: number
  /** Whether the bug's effect is work that never ends. */
  readonly hangs?: boolean
}

export const mutations: readonly Mutation[] = [
  {
    name: 'the guard does not compare fences',
    edits: [
      [functions('postgres'), 'where known.fence <= excluded.fence', 'where true'],
      [functions('postgres'), 'if session is not null and pg_try', 'if false and pg_try'],
      [
        functions('leases'),
        /if not exists \(\s+select\s+from holdfast\.lease\s+where lease\.key = guard_lease/,
        'if false and not exists (select from holdfast.lease where lease.key = guard_lease',
      ],
    ],
    onlyRooms: ['locks', 'leases', 'elections'],
    onlyFaults: ['cut', 'freeze', 'delay'],
  },
  {
    name: 'the client trusts a session for longer than the server does',
    edits: [[code('postgres'), 'return expiryMs - Math.max(200, expiryMs * .1)', 'return expiryMs * 3']],
    onlyRooms: ['locks', 'elections'],
    onlyFaults: ['cut', 'freeze'],
  },
  {
    name: 'the client trusts a lease for longer than the server does',
    edits: [[code('leases'), 'return ttlMs - Math.max(100, ttlMs * .1)', 'return ttlMs * 3']],
    onlyRooms: ['leases'],
    onlyFaults: ['cut', 'freeze'],
  },
  {
    name: 'a lock is granted without a check for a lease of the name',
    edits: [
      ['dist/locks/locks.sql', /not holdfast\.is_leased\(\$1::bigint\)/g, 'true'],
      ['dist/locks/locks.sql', 'holdfast.leased_keys(array(select key from tried where granted))', 'array[]::bigint[]'],
    ],
    onlyRooms: ['locks', 'leases'],
    onlyFaults: ['lose an answer'],
  },
  {
    name: 'a lease is released without a check of its holder',
    edits: [
      [
        functions('leases'),
        'and lease.token = asked.token\n        and lease.fence = coalesce(asked.fence, lease.fence)',
        '',
      ],
      [functions('leases'), 'and token = for_token\n      and fence = for_fence', ''],
    ],
    onlyRooms: ['leases'],
    onlyFaults: ['cut', 'freeze', 'lose an answer'],
  },
  {
    name: 'a lease is granted again shortly before it expires',
    edits: [
      [
        functions('leases'),
        /where held\.expires_at <= clock_timestamp\(\)/g,
        "where held.expires_at <= clock_timestamp() + interval '300 ms'",
      ],
    ],
    onlyRooms: ['leases'],
    onlyFaults: ['cut', 'freeze', 'lose an answer'],
  },
  {
    name: 'new instances do not wait for earlier instances after a restart',
    edits: [
      [
        functions('postgres'),
        /where not exists \(\s+select\s+from holdfast\.instance\s+where instance\.generation < noticed/,
        'where true or not exists (select from holdfast.instance where instance.generation < noticed',
      ],
      [
        'dist/postgres/instance.sql',
        'where generation < (select generation from holdfast.server_generation)',
        'where false',
      ],
    ],
    onlyRooms: ['locks', 'elections', 'leases'],
    onlyFaults: ['cut', 'restart'],
    // Long enough that a holder is still trusted when the server is back.
    expiry: 6,
  },
  {
    name: 'neither the clock nor the tables determine where numbers continue after a restore',
    edits: [
      [functions('postgres'), /(create or replace function holdfast\.clock_floor\(.*?as \$\$ select )/s, '$10 * '],
      [functions('postgres'), 'was_behind := holdfast.catch_up_sequences();', ''],
    ],
    onlyRooms: ['locks', 'elections', 'jobs'],
    // Restores are rare enough that grants happen between two of them.
    onlyFaults: ['restore', ...Array(9).fill('move a clock')],
  },
  {
    name: 'a restore is not detected',
    edits: [
      [
        functions('postgres'),
        '(system_identifier, database, written_by) is distinct',
        '(system_identifier, database, xmin) is distinct',
      ],
      [functions('postgres'), 'or recorded.fence_floor > (select last_value from holdfast.fence);', ';'],
      [functions('postgres'), 'and written_by = xmin', ''],
      [functions('postgres'), 'and fence_floor <= (select last_value from holdfast.fence)', ''],
    ],
    onlyRooms: ['jobs'],
    // Restores are rare enough that grants happen between two of them.
    onlyFaults: ['restore', ...Array(9).fill('move a clock')],
  },
  {
    name: 'a leader is not notified that its term has ended',
    edits: [
      [code('postgres'), '[name.signal, ...signals].map(', 'signals.map('],
      [code('postgres'), 'if (!this.#name.held && this.#name.signal.aborted)', 'if (false)'],
    ],
    onlyRooms: ['elections'],
    // Not `freeze`: a thawed process reads the clock, so this bug has no effect.
    onlyFaults: ['cut', 'terminate'],
  },
  {
    name: 'a live instance counts as dead',
    edits: [
      [
        functions('postgres'),
        'if not pg_try_advisory_xact_lock_shared(holdfast.session_class(), session) then',
        'if false then',
      ],
    ],
    onlyRooms: ['limits', 'once', 'jobs', 'schedules'],
    onlyFaults: ['kill', 'cut'],
  },
  {
    name: 'permits are granted without a check of how many are in use',
    edits: [[functions('limits'), 'exit when in_use + head.weight > head.max;', '']],
    onlyRooms: ['limits'],
    onlyFaults: ['kill'],
  },
  {
    name: 'permits are granted without a check of the room',
    edits: [[functions('limits'), '(in_use operator(pg_catalog.+) weight) operator(pg_catalog.<=) max', 'true']],
    onlyRooms: ['limits'],
    onlyFaults: ['kill'],
  },
  {
    name: 'a dead session keeps its permits',
    hangs: true,
    edits: [[functions('limits'), 'if holdfast.is_present(part.session) then', 'if true then']],
    onlyRooms: ['limits'],
    onlyFaults: ['kill', 'terminate'],
  },
  {
    name: 'a window skips late commits',
    edits: [[functions('jobs'), /(from pg_snapshot_xip\(f\.base\) as late \(xid\)\s+where )/, '$1false and ']],
    onlyRooms: ['jobs'],
    onlyFaults: ['kill', 'freeze'],
  },
  {
    name: 'the frontier is read before the lock',
    edits: [
      [
        functions('jobs'),
        /perform pg_advisory_xact_lock\(holdfast\.lock_class\('job claims'\), object\)(?=\s+from \(\s+select distinct queue::\S+ as object\s+from unnest)/,
        'perform',
      ],
      [
        functions('jobs'),
        /(order by number desc\s+limit 1;\n)(\s+if f\.number is null then)/,
        "$1      perform pg_advisory_xact_lock(holdfast.lock_class('job claims'), level_queues[level]::bit(32)::integer);\n$2",
      ],
      // Otherwise two claims on the same jobs violate the primary key.
      [
        functions('jobs'),
        'f.at_xid, f.at_entry, f.is_read);',
        'f.at_xid, f.at_entry, f.is_read) on conflict do nothing;',
      ],
    ],
    onlyRooms: ['jobs'],
    onlyFaults: ['delay', 'kill'],
  },
  {
    name: 'a worker ends a job that another worker has taken over',
    edits: [
      [
        functions('jobs'),
        'join holdfast.claim on claim.fence = asked.fence',
        'cross join lateral (values (asked.fence, 0, now())) as claim (fence, session, claimed_at)',
      ],
      [functions('jobs'), '((asked.id, asked.fence) in (select owned.id, owned.fence from owned)) is true', 'true'],
      // Otherwise the end that the takeover recorded makes the late end fail.
      [functions('jobs'), 'and e.fence = any(fences)', 'and e.fence = any(fences) and e.is_done'],
    ],
    onlyRooms: ['jobs'],
    onlyFaults: ['cut', 'freeze'],
  },
  {
    name: 'a takeover forgets a job',
    edits: [
      [functions('jobs'), "'crashed')) from unnest(one.ids) as id", "'crashed')) from unnest(one.ids[2:]) as id"],
    ],
    onlyRooms: ['jobs'],
    onlyFaults: ['kill'],
  },
  {
    name: 'restored jobs keep the transaction ids of another cluster',
    edits: [
      [functions('postgres'), 'era = server_generation.era + is_elsewhere::integer', 'era = server_generation.era'],
      [functions('jobs'), 'select era + holdfast.is_another_cluster()::integer from', 'select era from'],
    ],
    onlyRooms: ['jobs'],
    // Restores are rare enough that jobs are enqueued between two of them.
    onlyFaults: ['restore', ...Array(9).fill('move a clock')],
  },
  {
    name: 'a lane runs one job too many',
    edits: [[functions('jobs'), 'max - active,', 'max + 1 - active,']],
    onlyRooms: ['jobs'],
    onlyFaults: ['kill'],
  },
  {
    // The server also ends the transaction of a step whose worker has been silent for too long.
    name: 'a stale worker records a step',
    edits: [
      [
        functions('jobs'),
        /if not holdfast\.job_owns\(job_id, claim_fence\) then\s+return false;/,
        'if false then return false;',
      ],
      [
        code('once'),
        /idle_in_transaction_session_timeout = \$\{expiryMs\}/,
        'idle_in_transaction_session_timeout = 60000',
      ],
    ],
    onlyRooms: ['steps'],
    onlyFaults: ['freeze'],
  },
  {
    name: 'a recorded step runs again',
    edits: [['dist/jobs/jobs.sql', /(from holdfast\.job_step\s+where job = \$1::bigint)/, "$1 and kind <> 'step'"]],
    onlyRooms: ['steps'],
    onlyFaults: ['kill'],
  },
  {
    name: 'a step and its transaction do not commit together',
    edits: [[code('jobs'), 'store.runIn(tx, "record_step", ', 'store.run("record_step", ']],
    onlyRooms: ['steps'],
    onlyFaults: ['kill'],
  },
  {
    name: 'an event that was sent before the wait is lost',
    edits: [
      [
        functions('jobs'),
        'where e.job = job_id and e.event = for_event and e.step is null',
        'where e.job = job_id and e.event = for_event and e.step is null and e.sent_at > known.started_at',
      ],
      [
        functions('jobs'),
        'where e.job = job_id and e.event = wait.event and e.step is null',
        'where e.job = job_id and e.event = wait.event and e.step is null and e.sent_at > wait.started_at',
      ],
    ],
    onlyRooms: ['steps'],
    onlyFaults: ['kill'],
    hangs: true,
  },
  {
    name: 'a claim does not check the deadline of a job',
    edits: [
      [functions('jobs'), "where not holdfast.job_is_late(one->'links')", ''],
      // Otherwise the job that is late has already ended when the claim finds it.
      [
        functions('jobs'),
        'where d.start_by <= (select clock_timestamp())',
        "where d.start_by <= (select clock_timestamp() - interval '1 s')",
      ],
    ],
    onlyRooms: ['changes'],
    onlyFaults: ['kill'],
  },
  {
    name: 'a job keeps its deadline after its first attempt',
    hangs: true,
    edits: [[functions('jobs'), "nullif(j.links - 'startBy', '{}') as links", 'j.links']],
    onlyRooms: ['changes'],
    onlyFaults: ['kill'],
  },
  {
    name: 'an update of a job does not block claims on its queue',
    edits: [
      [
        functions('jobs'),
        "perform pg_advisory_xact_lock(holdfast.lock_class('job claims'), seen.queue::bit(32)::integer);",
        '',
      ],
      [functions('jobs'), 'and (now.entry, now.fence) is not distinct from (seen.entry, seen.fence)', ''],
    ],
    onlyRooms: ['changes'],
    onlyFaults: ['delay', 'kill'],
  },
  {
    name: 'a stopped job stays in its queue',
    edits: [[functions('jobs'), /perform holdfast\.job_remove\(job_id\);(?=\s+holds)/, '']],
    onlyRooms: ['changes'],
    onlyFaults: ['kill'],
  },
  {
    name: 'a budget ignores the weights of its jobs',
    edits: [[functions('jobs'), "(one operator(pg_catalog.->>) 'weight')::pg_catalog.int4", '1']],
    onlyRooms: ['jobs'],
    onlyFaults: ['kill'],
  },
  {
    name: 'a job that a takeover returns never gives its room back',
    edits: [
      [
        functions('jobs'),
        'nullif(crashes + charge, 0), nullif(max_crashes, 3), log, all_failures, links, meta',
        "nullif(crashes + charge, 0), nullif(max_crashes, 3), log, all_failures, links - 'lane' - 'budgets', meta",
      ],
    ],
    onlyRooms: ['jobs'],
    onlyFaults: ['kill'],
  },
  {
    name: 'a rate window is counted twice',
    edits: [
      [
        functions('jobs'),
        'make_interval(secs => weights * every / 1e6)',
        'make_interval(secs => weights * every / 2e6)',
      ],
    ],
    onlyRooms: ['jobs'],
    onlyFaults: ['kill'],
  },
  {
    name: 'the turn of a group never comes',
    edits: [[functions('jobs'), 'sum(distance) over in_order\n', '0 * sum(distance) over in_order\n']],
    onlyRooms: ['jobs'],
    onlyFaults: ['kill'],
    hangs: true,
  },
  {
    name: 'a table can be truncated',
    edits: [
      [functions('postgres'), /(replace function holdfast\.refuse_truncate\(\).*?begin\n)/s, '$1    return null;\n'],
    ],
    onlyRooms: ['jobs'],
    onlyFaults: ['truncate a table', 'kill'],
  },
  {
    name: 'a key can be claimed again while its run is in progress',
    edits: [
      [functions('once'), "when 'in-flight' then holdfast.is_present(delivery.session)", "when 'in-flight' then false"],
      [functions('once'), "when 'in-flight' then not holdfast.is_present(held.session)", "when 'in-flight' then true"],
      [functions('once'), /and token = run_token/g, ''],
      ['dist/once/once.sql', /and delivery\.token = answered\.token/g, ''],
      [
        'dist/once/once.sql',
        /and delivery\.token = asked\.token\s+and delivery\.state = 'in-flight'/g,
        "and delivery.state = 'in-flight'",
      ],
    ],
    onlyRooms: ['once'],
    onlyFaults: ['cut', 'freeze'],
  },
  {
    name: 'webhooks do not compare payloads',
    edits: [[code('http'), 'fingerprint: digestOf(content)', '']],
    onlyRooms: ['once'],
    onlyFaults: ['kill'],
  },
  {
    name: 'once does not compare fingerprints',
    edits: [[code('once'), 'known !== null && fingerprint !== known', 'known !== null && false']],
    onlyRooms: ['once'],
    onlyFaults: ['kill'],
  },
  {
    name: 'a tick is claimed without a check whether another instance has claimed it',
    edits: [
      [functions('schedules'), "and s.next_at = coalesce((a.older -> 0 ->> 'first_at')::timestamptz, a.ticks[1])", ''],
    ],
    onlyRooms: ['schedules'],
    onlyFaults: ['kill', 'freeze'],
  },
  {
    // The ticker, the comparison of next_at and the primary key of tick each prevent this on their own.
    name: 'several instances enqueue the job of the same tick',
    edits: [
      [
        functions('schedules'),
        /where known\.instance = excluded\.instance\s+or known\.until < clock_timestamp\(\)/,
        '',
      ],
      [functions('schedules'), 'and s.next_at is not distinct from p.next_at', ''],
      [
        functions('schedules'),
        'from unnest(keys, ticks, ids) as a (key, at, job);',
        'from unnest(keys, ticks, ids) as a (key, at, job) on conflict do nothing;',
      ],
    ],
    onlyRooms: ['stored'],
    onlyFaults: ['kill'],
  },
  {
    name: 'an upsert with an unchanged rule computes the next tick again',
    edits: [
      [
        functions('schedules'),
        "outcomes[one.place] := 'unchanged';",
        "update holdfast.schedule set next_at = null, changed_at = clock_timestamp() where schedule.key = id; outcomes[one.place] := 'unchanged';",
      ],
    ],
    onlyRooms: ['stored'],
    onlyFaults: ['kill'],
  },
  {
    name: 'no instance takes over the run of a dead instance',
    hangs: true,
    edits: [
      [
        functions('schedules'),
        /(create or replace function holdfast\.schedule_recover\(.*?\n {2}begin\n)/s,
        '$1    return;\n',
      ],
    ],
    onlyRooms: ['schedules'],
    onlyFaults: ['kill', 'freeze'],
  },
  {
    name: 'the inspection of a value that a handler threw can throw',
    edits: [
      [
        code('base'),
        /try \{\s+return value instanceof type;\s+\}\s+catch \{\s+return false;\s+\}/,
        'return value instanceof type;',
      ],
      [code('base'), /try \{\s+return value\?\.\[key\];\s+\}\s+catch \{\s+return;\s+\}/, 'return value?.[key];'],
    ],
    onlyRooms: ['jobs', 'schedules', 'elections'],
    onlyFaults: ['kill'],
  },
]
