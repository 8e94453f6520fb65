// All orders of the steps of two and three sessions. README.md explains how to read a failure.
import { afterAll, describe, expect, test } from 'vitest'
import { sql } from '../setup/facts.js'
import { runsAll } from '../setup/variants.js'
import { type Bug, type Extent, explore, type Interruption, type Statement, type Tally } from './explore.js'
import { addPauses } from './pauses.js'
import { claim, end, takeOver, window } from './statements/jobs.js'
import { budgetAdmission, groupAdmission, laneAdmission, reservation } from './statements/lanes.js'
import { leaseGrant, leaseRenewal } from './statements/leases.js'
import { permit } from './statements/limits.js'
import { onceClaim } from './statements/once.js'
import { tick } from './statements/schedules.js'
import { event, recordedStep } from './statements/steps.js'
import { World } from './world.js'

/** Each statement has facts of its own, which only its own functions read. */
const statements = [
  claim,
  window,
  end,
  takeOver,
  laneAdmission,
  budgetAdmission,
  groupAdmission,
  reservation,
  leaseGrant,
  leaseRenewal,
  permit,
  onceClaim,
  tick,
  event,
  recordedStep,
] as unknown as Statement[]

const interruptions: readonly Interruption[] = ['cancelled', 'terminated', 'reply lost']

/** Number of sessions, and how each of their subsets runs. */
const extents: readonly (Extent & { readonly size: number })[] = [
  // `npm test` leaves out the places of `begin`: see README.md.
  { size: 2, mergesBegin: !runsAll },
  ...(runsAll
    ? [
        { size: 2, mergesBegin: true, interruptions },
        { size: 3, mergesBegin: true },
      ]
    : []),
]

/** Number of times that a run with stops may leave a session that could continue. */
const maxSwitches = Number(process.env.HOLDFAST_SWITCHES || 1)

const counts = ['orders', 'ran', 'impossible', 'waits', 'interrupted'] as const

/** Counts of the runs, in several lines per statement. */
class Total {
  static readonly all: Total[] = []
  orders = 0
  ran = 0
  impossible = 0
  waits = 0
  interrupted = 0

  constructor(readonly what: string) {
    Total.all.push(this)
  }

  add(tally: Pick<Tally, (typeof counts)[number]>): void {
    for (const count of counts) this[count] += tally[count]
  }

  toString(): string {
    const { what, orders, ran, impossible, waits, interrupted } = this
    return `${what}: ${orders} orders (${ran} ran, ${impossible} cannot happen), ${waits} waits, ${interrupted} interrupted runs`
  }
}

afterAll(() => {
  const lines = Total.all.sort((a, b) => (a.what < b.what ? -1 : 1))
  const sum = new Total('all')
  for (const total of lines) if (total !== sum) sum.add(total)
  console.log(lines.join('\n'))
})

/** Subsets of the actors that are of interest. */
async function castsOf(statement: Statement, world: World, size: number): Promise<string[][]> {
  const actors = statement.actors(await statement.prepare(world))
  await world.empty(statement.tables)
  const bystanders = new Set(actors.filter(({ isBystander }) => isBystander).map(({ name }) => name))
  return subsetsOf(
    actors.map(({ name }) => name),
    size,
  ).filter((cast) => cast.some((name) => !bystanders.has(name)))
}

const subsetsOf = (names: readonly string[], size: number): string[][] =>
  size === 0
    ? [[]]
    : names.flatMap((name, at) => subsetsOf(names.slice(at + 1), size - 1).map((others) => [name, ...others]))

async function inWorld<T>(work: (world: World) => Promise<T>): Promise<T> {
  const world = await World.open()
  try {
    return await work(world)
  } finally {
    await world.close()
  }
}

describe.concurrent.each(statements)('the statement $name', { timeout: 170_000 }, (statement) => {
  test('keeps its promises in every order of the steps', () =>
    inWorld(async (world) => {
      const rows = await world.rowCounts()
      for (const { size, ...extent } of extents) {
        const total = new Total(
          `${statement.name}, ${size} sessions${extent.interruptions ? ', each step interrupted' : ''}`,
        )
        for (const cast of await castsOf(statement, world, size)) {
          const tally = await explore(statement, world, cast, extent)
          total.add(tally)
          expect(tally.violations.slice(0, 3).join('\n')).toBe('')
        }
      }
      // No run has left rows for the next one.
      expect(await world.rowCounts()).toEqual(rows)
    }))

  test.runIf(runsAll)('keeps its promises if another session comes between two statements of its functions', () =>
    inWorld(async (world) => {
      await addPauses(world, statement.functions)
      const total = new Total(`${statement.name}, 2 sessions with stops`)
      for (const cast of await castsOf(statement, world, 2)) {
        const tally = await explore(statement, world, cast, { maxSwitches })
        total.add(tally)
        expect(tally.violations.slice(0, 3).join('\n')).toBe('')
      }
    }),
  )

  test.each(runsAll ? statement.bugs : [])('shows the bug: $name', (bug) =>
    inWorld(async (world) => {
      await plant(bug, world)
      const violations: string[] = []
      for (const size of [2, 3]) {
        for (const cast of await castsOf(statement, world, size)) {
          if (violations.length > 0) break
          const tally = await explore(statement, world, cast, { mergesBegin: size === 3, stopsAtViolation: true })
          violations.push(...tally.violations)
        }
      }
      expect(violations.length).toBeGreaterThan(0)
      console.log(`${statement.name}, ${bug.name}: ${violations[0]!.split('\n')[0]}`)
    }),
  )
})

/** Replaces a function of the schema by one with a mistake. */
async function plant({ function: name, edits }: Bug, { database }: World): Promise<void> {
  const [row] = await sql<{ text: string }>(
    database.url,
    "select pg_get_functiondef(('holdfast.' || $1)::regproc) as text",
    [name],
  )
  let text = row!.text
  for (const [from, to] of edits) {
    const changed = text.replace(from, to)
    if (changed === text) throw new Error(`The function ${name} does not contain ${from}`)
    text = changed
  }
  await sql(database.url, text)
}
