import { begin, commit, isCommitted, type Report, resultOf, type Statement } from '../explore.js'
import { step, textOf } from '../sql.js'
import type { World } from '../world.js'

const key = '7002'
const ttlMs = 60_000
const tables = ['holdfast.lease']

const one = (token: string) => step('leases', 'acquire_one', [key, token, ttlMs, 0, `i${token}`, token], 'acquire')
const batch = (token: string) =>
  step('leases', 'acquire', [[key], [token], [ttlMs], [0], `i${token}`, token], 'acquire')

interface Hold {
  readonly who: string
  readonly fence: bigint
  readonly from: number
  readonly to: number
}

/** Holds of which a caller knows. A lease is held from the end of its transaction. */
function holdsOf(reports: ReadonlyMap<string, Report>): Hold[] {
  const holds: Hold[] = []
  for (const report of reports.values()) {
    const known = report.outcomes.slice(report.knownFrom)
    if (report.actor === 'locker') {
      const [tried, released] = [known.find((o) => o.step === 'lock'), known.find((o) => o.step === 'unlock')]
      const fence = Object.values(tried?.rows[0] ?? {})[0]
      if (fence)
        holds.push({
          who: 'locker',
          fence: BigInt(String(fence)),
          from: tried!.endedAt,
          to: released?.startedAt ?? Infinity,
        })
    } else {
      const fence = resultOf(report, 'acquire')?.fence
      const released = known.findLast(({ step, rows }) => step === 'release' && rows[0]?.released)
      if (fence)
        holds.push({
          who: report.actor,
          fence: BigInt(String(fence)),
          from: known.at(-1)!.endedAt,
          to: released?.startedAt ?? Infinity,
        })
    }
  }
  return holds.sort((a, b) => a.from - b.from)
}

function overlaps(reports: ReadonlyMap<string, Report>): string[] {
  const holds = holdsOf(reports)
  return holds.slice(1).flatMap((hold, at) => {
    const before = holds[at]!
    return [
      ...(hold.from < before.to ? [`${before.who} and ${hold.who} hold the name at the same time`] : []),
      ...(hold.fence <= before.fence ? [`The fence of ${hold.who} is ${hold.fence}, after ${before.fence}`] : []),
    ]
  })
}

/** The row must be the lease of the caller that knows that it holds the name. */
async function wrongRow(world: World, reports: ReadonlyMap<string, Report>): Promise<string[]> {
  const rows = await world.query<{ token: string; fence: string }>(
    'select token, fence::text from holdfast.lease where expires_at > clock_timestamp()',
  )
  const held = holdsOf(reports).find(({ who, to }) => who !== 'locker' && to === Infinity)
  if (!held) return []
  const row = rows[0]
  return row && BigInt(row.fence) === held.fence
    ? []
    : [`${held.who} holds the name with the fence ${held.fence}, but the row is ${JSON.stringify(rows)}`]
}

export const leaseGrant: Statement<null> = {
  name: 'lease grant',
  functions: ['acquire_lease', 'acquire_leases', 'is_leased'],
  tables,
  bugs: [
    {
      name: 'a lease is granted while the name is locked',
      function: 'acquire_lease',
      edits: [['where pg_try_advisory_xact_lock(for_key)', '']],
    },
    {
      name: 'a lease is granted before it expires',
      function: 'acquire_lease',
      edits: [['where held.expires_at <= clock_timestamp()', '']],
    },
  ],
  prepare: async () => null,
  actors: () => [
    { name: 'A', steps: [begin, one('a'), commit] },
    { name: 'B', steps: [begin, batch('b'), commit] },
    {
      name: 'locker',
      steps: [
        step('locks', 'try_one', [key, false, 'holdfast.fence'], 'lock'),
        // The client releases only a lock that it has.
        {
          name: 'unlock',
          text: `select case when $2::bigint is not null then (${textOf('locks', 'release_one').replaceAll('$2', 'false')}) end as released`,
          values: (earlier) => [key, Object.values(earlier.at(-1)?.rows[0] ?? {})[0] ?? null],
        },
      ],
    },
  ],
  check: async (world, _, reports) => [...overlaps(reports), ...(await wrongRow(world, reports))],
}

export const leaseRenewal: Statement<{ fence: string }> = {
  name: 'lease renewal',
  functions: ['acquire_lease', 'acquire_leases', 'release_lease', 'release_leases'],
  tables,
  bugs: [
    {
      name: 'a release does not compare fences',
      function: 'release_lease',
      edits: [[/and token = for_token\s+and fence = for_fence/, '']],
    },
  ],
  async prepare(world) {
    const [row] = await world.query<{ fence: string }>(textOf('leases', 'acquire_one'), [
      key,
      'old',
      ttlMs,
      0,
      'iold',
      'old',
    ])
    await world.query("update holdfast.lease set expires_at = clock_timestamp() - interval '1 ms'")
    return { fence: row!.fence }
  },
  actors: ({ fence }) => [
    { name: 'renewal', steps: [begin, step('leases', 'renew_leases', [[key], ['old'], [ttlMs]], 'renew'), commit] },
    { name: 'B', steps: [begin, one('b'), commit] },
    {
      name: 'late release',
      steps: [begin, step('leases', 'release_one', [key, 'old', fence, 'holdfast'], 'release'), commit],
    },
  ],
  async check(world, _, reports) {
    const wrong = await wrongRow(world, reports)
    const renewal = reports.get('renewal')
    if (
      renewal &&
      isCommitted(renewal) &&
      renewal.outcomes.some(({ step, rows }) => step === 'renew' && rows.length > 0)
    ) {
      wrong.push('A renewal revived an expired lease')
    }
    const b = reports.get('B')
    if (b && isCommitted(b) && !resultOf(b, 'acquire')?.fence) {
      // A transaction that decides on the name makes it busy. Nothing else may refuse an expired name.
      wrong.push('An expired lease was not granted')
    }
    return wrong
  },
}
