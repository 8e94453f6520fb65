// Bugs that are planted to see whether the judge finds them: each changes the built package in one place, as somebody might by mistake.

const functions = (room: string) => `dist/${room}/functions.sql`

export interface Mutation {
  readonly name: string
  readonly edits: readonly (readonly [file: string, from: string | RegExp, to: string])[]
  readonly only: readonly string[]
  readonly among: readonly string[]
  /** In seconds. */
  readonly expiry?: number
  /** The bug is that something does not come to its end. */
  readonly hangs?: boolean
}

/** `among` and `only` name the faults and the rooms that meet the bug soonest: not what it is, but where one would look. */
export const mutations: readonly Mutation[] = [
  {
    name: 'the guard does not look at fences',
    edits: [
      [functions('postgres'), 'where known.fence <= excluded.fence', 'where true'],
      [functions('postgres'), 'if session is not null and pg_try', 'if false and pg_try'],
      [
        functions('leases'),
        /if not exists \(\s+select\s+from holdfast\.lease\s+where lease\.key = guard_lease/,
        'if false and not exists (select from holdfast.lease where lease.key = guard_lease',
      ],
    ],
    only: ['locks', 'leases', 'elections'],
    among: ['cut', 'freeze', 'delay'],
  },
  {
    name: 'the client trusts a session for longer than the server does',
    edits: [['dist/postgres/presence.js', 'return expiryMs - Math.max(200, expiryMs * 0.1)', 'return expiryMs * 3']],
    only: ['locks', 'elections'],
    among: ['cut', 'freeze'],
  },
  {
    name: 'the client trusts a lease for longer than the server does',
    edits: [['dist/leases/lease-hold.js', 'return ttlMs - Math.max(100, ttlMs * 0.1)', 'return ttlMs * 3']],
    only: ['leases'],
    among: ['cut', 'freeze'],
  },
  {
    name: 'nobody looks for a lease when a lock was granted',
    edits: [
      ['dist/locks/locks.sql', /not holdfast\.is_leased\(\$1::bigint\)/g, 'true'],
      ['dist/locks/locks.sql', 'holdfast.leased_keys(array(select key from tried where granted))', 'array[]::bigint[]'],
    ],
    only: ['locks', 'leases'],
    among: ['lose an answer'],
  },
  {
    name: 'a lease is released by its name alone',
    edits: [
      [
        functions('leases'),
        'and lease.token = asked.token\n        and lease.fence = coalesce(asked.fence, lease.fence)',
        '',
      ],
    ],
    only: ['leases'],
    among: ['cut', 'freeze', 'lose an answer'],
  },
  {
    name: 'a lease is granted shortly before it is over',
    edits: [
      [
        functions('leases'),
        'where held.expires_at <= clock_timestamp()',
        "where held.expires_at <= clock_timestamp() + interval '300 ms'",
      ],
    ],
    only: ['leases'],
    among: ['cut', 'freeze', 'lose an answer'],
  },
  {
    name: 'who comes after a restart does not wait for those from before',
    edits: [
      [
        functions('postgres'),
        'return not exists (\n      select\n      from holdfast.server_generation',
        'return true or not exists (\n      select\n      from holdfast.server_generation',
      ],
      [
        'dist/postgres/instance.sql',
        'where generation < (select generation from holdfast.server_generation)',
        'where false',
      ],
    ],
    only: ['locks', 'elections', 'leases'],
    among: ['cut', 'restart'],
    // So that somebody believes for long enough to see a server come back.
    expiry: 6,
  },
  {
    name: 'after a restore neither the clock nor the tables show where numbers go on',
    edits: [
      [functions('postgres'), /(create or replace function holdfast\.clock_floor\(.*?as \$\$ select )/s, '$10 * '],
      [functions('postgres'), 'was_behind := holdfast.catch_up_sequences();', ''],
    ],
    only: ['locks', 'elections', 'jobs'],
    // Rarely enough that something is granted in between.
    among: ['restore', ...Array(9).fill('move a clock')],
  },
  {
    name: 'a restore is not noticed',
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
    only: ['jobs'],
    // Rarely enough that something is granted in between.
    among: ['restore', ...Array(9).fill('move a clock')],
  },
  {
    name: 'a leader does not hear that its term is over',
    edits: [
      ['dist/postgres/held-work.js', '[name.signal, ...signals].map(', 'signals.map('],
      ['dist/postgres/held-work.js', 'if (!this.#name.held && this.#name.signal.aborted)', 'if (false)'],
    ],
    only: ['elections'],
    // Whoever was frozen asks anew, and is told: nothing of this bug shows then.
    among: ['cut', 'terminate'],
  },
  {
    name: 'whoever is present counts as gone',
    edits: [
      [
        functions('postgres'),
        'if not pg_try_advisory_xact_lock_shared(holdfast.session_class(), session) then',
        'if false then',
      ],
    ],
    only: ['limits', 'once', 'jobs', 'schedules'],
    among: ['kill', 'cut'],
  },
  {
    name: 'permits are handed on without a look at how many there are',
    edits: [[functions('limits'), 'exit when in_use + head.weight > head.max;', '']],
    only: ['limits'],
    among: ['kill'],
  },
  {
    name: 'a dead session keeps its permits',
    hangs: true,
    edits: [[functions('limits'), 'if holdfast.is_present(part.session) then', 'if true then']],
    only: ['limits'],
    among: ['kill', 'terminate'],
  },
  {
    name: 'a window skips late commits',
    edits: [
      [
        functions('jobs'),
        /(job\.xid = any\(array\(select pg_snapshot_xip\(f\.base\)\)\)\s+)(and \(job\.xid, job\.entry\) > )/,
        '$1and false $2',
      ],
    ],
    only: ['jobs'],
    among: ['kill', 'freeze'],
  },
  {
    name: 'the frontier is read before the lock',
    edits: [
      [
        functions('jobs'),
        /perform pg_advisory_xact_lock\(holdfast\.lock_class\('job claims'\), object\)(?=\s+from \(\s+select distinct queue::)/,
        'perform',
      ],
      [
        functions('jobs'),
        /(order by number desc\s+limit 1;\n)(\s+if f\.number is null then)/,
        "$1      perform pg_advisory_xact_lock(holdfast.lock_class('job claims'), levels.queues[level]::bit(32)::integer);\n$2",
      ],
      // Otherwise the primary key makes two claims of the same jobs an error.
      [
        functions('jobs'),
        'f.at_xid, f.at_entry, f.is_read);',
        'f.at_xid, f.at_entry, f.is_read) on conflict do nothing;',
      ],
    ],
    only: ['jobs'],
    among: ['delay', 'kill'],
  },
  {
    name: 'a worker ends jobs by a claim that was taken over',
    edits: [
      [
        functions('jobs'),
        'join claimed on claimed.id = asked.id and claimed.fence = asked.fence',
        'cross join lateral (values (asked.fence, 0, now())) as claimed (fence, session, claimed_at)',
      ],
      // Otherwise the end that the take-over recorded keeps the late one out.
      [functions('jobs'), 'and e.fence = any(fences)', 'and e.fence = any(fences) and e.is_done'],
    ],
    only: ['jobs'],
    among: ['cut', 'freeze'],
  },
  {
    name: 'a take-over forgets a job',
    edits: [
      [functions('jobs'), "'crashed')) from unnest(one.ids) as id", "'crashed')) from unnest(one.ids[2:]) as id"],
    ],
    only: ['jobs'],
    among: ['kill'],
  },
  {
    name: 'restored jobs keep the transaction ids of another cluster',
    edits: [
      [functions('postgres'), 'era = server_generation.era + is_elsewhere::integer', 'era = server_generation.era'],
      [functions('jobs'), 'select era + holdfast.is_another_cluster()::integer from', 'select era from'],
    ],
    only: ['jobs'],
    // Rarely enough that something is enqueued in between.
    among: ['restore', ...Array(9).fill('move a clock')],
  },
  {
    name: 'a lane has room for one more',
    edits: [[functions('jobs'), 'max - active,', 'max + 1 - active,']],
    only: ['jobs'],
    among: ['kill'],
  },
  {
    name: 'a run in flight can be claimed again',
    edits: [
      [functions('once'), "when 'in-flight' then holdfast.is_present(delivery.session)", "when 'in-flight' then false"],
      [functions('once'), "when 'in-flight' then not holdfast.is_present(held.session)", "when 'in-flight' then true"],
      ['dist/once/once.sql', /and delivery\.token = answered\.token/g, ''],
      [
        'dist/once/once.sql',
        /and delivery\.token = asked\.token\s+and delivery\.state = 'in-flight'/g,
        "and delivery.state = 'in-flight'",
      ],
    ],
    only: ['once'],
    among: ['cut', 'freeze'],
  },
  {
    name: 'webhooks do not compare what they deliver',
    edits: [['dist/http/webhooks.js', 'fingerprint: digestOf(content)', '']],
    only: ['once'],
    among: ['kill'],
  },
  {
    name: 'a fingerprint is not compared',
    edits: [['dist/once/once.js', 'known !== null && fingerprint !== known', 'known !== null && false']],
    only: ['once'],
    among: ['kill'],
  },
  {
    name: 'a tick is taken without a look at who was first',
    edits: [
      [functions('schedules'), "and s.next_at = coalesce((a.older -> 0 ->> 'first_at')::timestamptz, a.ticks[1])", ''],
    ],
    only: ['schedules'],
    among: ['kill', 'freeze'],
  },
  {
    name: 'nobody takes over the run of somebody who died',
    hangs: true,
    edits: [
      [
        functions('schedules'),
        /(create or replace function holdfast\.schedule_recover\(.*?\n {2}begin\n)/s,
        '$1    return;\n',
      ],
    ],
    only: ['schedules'],
    among: ['kill', 'freeze'],
  },
  {
    name: 'a look at what a handler threw can throw',
    edits: [
      [
        'dist/base/user-values.js',
        /try \{\s+return value instanceof type;\s+\}\s+catch \{\s+return false;\s+\}/,
        'return value instanceof type;',
      ],
      [
        'dist/base/user-values.js',
        /try \{\s+return value\?\.\[key\];\s+\}\s+catch \{\s+return undefined;\s+\}/,
        'return value?.[key];',
      ],
    ],
    only: ['jobs', 'schedules', 'elections'],
    among: ['kill'],
  },
]
