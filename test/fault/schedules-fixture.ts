import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { ruleFromText } from '../../src/cron/index.js'
import type { ScheduleOptions } from '../../src/index.js'
import type { Witness } from '../setup/facts.js'
import { Child } from './children.js'
import { expiryMs } from './fixture.js'
import { SilentProxy } from './silent-proxy.js'

export type NamedSchedule = ScheduleOptions & { name: string }

export interface Actor {
  readonly child: ChildProcess
  readonly proxy: SilentProxy
  /** Attempt numbers of all runs that have started in the process. */
  readonly started: readonly number[]
  send(order: object): void
  kill(): Promise<void>
  close(): Promise<void>
}

/** Creates the directory in which the processes of a test write their histories. */
export function openHistory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-schedules-'))
  onTestFinished(async () => rmSync(directory, { recursive: true, force: true }))
  return directory
}

let actors = 0

export async function startActor(
  url: string,
  history: string,
  options: { anchor: 'required' | 'none'; clockMs: number; schedules: NamedSchedule[]; expiryMs?: number },
): Promise<Actor> {
  const proxy = await SilentProxy.before(url)
  const details = { url: proxy.through(url), expiryMs, history: join(history, String(actors++)), ...options }
  onTestFinished(() => proxy.close())
  const child = new Child<{ attempt?: number }>('./schedules-actor.ts', details)
  await child.first('it is open')
  return {
    child: child.process,
    proxy,
    get started() {
      return child.messages.flatMap(({ attempt }) => (attempt === undefined ? [] : [attempt]))
    },
    send: (order) => child.send(order),
    async kill() {
      child.kill()
      await child.ended()
    },
    close: () => child.close('close', 60_000),
  }
}

interface Line {
  id: string
  event: 'starts' | 'still-holds'
  at: string
  schedule: string
  tick: number
  fence: number
  attempt: number
}

interface Hold {
  schedule: string
  tick: number
  fence: number
  from: bigint
  last: bigint
}

/** Reads the holds of the handlers: from the start of a run until the last check at which its signal was not aborted. */
function holdsOf(history: string): Hold[] {
  const holds: Hold[] = []
  for (const file of readdirSync(history)) {
    const started = new Map<string, Hold>()
    for (const text of readFileSync(join(history, file), 'utf8').split('\n')) {
      if (!text) continue
      const line: Line = JSON.parse(text)
      const at = BigInt(line.at)
      if (line.event === 'starts') {
        const { schedule, tick, fence } = line
        started.set(line.id, { schedule, tick, fence, from: at, last: at })
      } else started.get(line.id)!.last = at
    }
    holds.push(...started.values())
  }
  return holds.sort((a, b) => (a.from < b.from ? -1 : 1))
}

export interface Tally {
  ticks: number
  runs: number
  reruns: number
  gaps: Record<string, number>
}

/**
 * Checks the tables and the histories. Each tick of a rule in force has exactly one run or gap. No two runs of a schedule overlapped, unless its
 * option allows it. Each effect through `tx` belongs to a run that is done, and exists once. `formerly` maps former names of schedules to their
 * present names.
 */
export async function prove(witness: Witness, history: string, formerly: Record<string, string> = {}): Promise<Tally> {
  const tally: Tally = { ticks: 0, runs: 0, reruns: 0, gaps: {} }
  const holds = holdsOf(history).map((one) => ({ ...one, schedule: formerly[one.schedule] ?? one.schedule }))
  const schedules = await witness.query<{
    key: string
    name: string
    overlap: string
    next_at: Date | null
    now: Date
  }>('select key, name, overlap, next_at, now() from holdfast.schedule order by name')
  for (const { key, name, overlap, next_at, now } of schedules) {
    const rules = await witness.query<{ since: Date; rule: string }>(
      'select since, rule from holdfast.schedule_rule where schedule = $1 order by since',
      [key],
    )
    const ticks: Date[] = []
    for (const [at, { since, rule }] of rules.entries()) {
      // The last rule ends before its first tick that has no run and no gap yet.
      const until = rules[at + 1]?.since ?? (next_at === null ? now : new Date(next_at.getTime() - 1))
      // The times of the database have a finer resolution. A tick at the moment of a change belongs to the earlier rule.
      ticks.push(...ruleFromText(rule).between(since, until, 1_000_000))
    }
    const unproven = await witness.query<{ at: Date }>('select holdfast.schedule_unaccounted($1, $2) as at', [
      key,
      ticks,
    ])
    expect({ name, unproven }).toEqual({ name, unproven: [] })
    const rows = await witness.query<{ at: Date; state: string; attempt: number; fence: string }>(
      'select at, state, attempt, fence from holdfast.tick where schedule = $1 and not extra order by at',
      [key],
    )
    const gaps = await witness.query<{ ticks: string; reason: string }>(
      'select ticks, reason from holdfast.gap where schedule = $1',
      [key],
    )
    for (const gap of gaps) tally.gaps[gap.reason] = (tally.gaps[gap.reason] ?? 0) + Number(gap.ticks)
    // There are no other runs and gaps, and the counts of the gaps are correct.
    expect({ name, count: rows.length + gaps.reduce((sum, gap) => sum + Number(gap.ticks), 0) }).toEqual({
      name,
      count: ticks.length,
    })
    expect({ name, open: rows.filter(({ state }) => state === 'running' || state === 'waiting') }).toEqual({
      name,
      open: [],
    })
    tally.ticks += ticks.length
    tally.runs += rows.length
    tally.reruns += rows.filter(({ attempt }) => attempt > 1).length

    const mine = holds.filter(({ schedule }) => schedule === name)
    const started = new Set(mine.map(({ tick }) => tick))
    expect(
      rows.filter(({ at, state }) => state !== 'cancelled' && state !== 'broken' && !started.has(at.getTime())),
    ).toEqual([])
    for (const [at, hold] of mine.entries()) {
      for (const later of mine.slice(at + 1)) {
        if (overlap === 'allow' && later.tick !== hold.tick) continue
        expect(later.fence).toBeGreaterThan(hold.fence)
        if (later.from < hold.last) {
          expect.unreachable(
            `Two runs of "${name}" overlapped: ${new Date(hold.tick).toISOString()} (fence ${hold.fence}) was held until ` +
              `${(hold.last - later.from) / 1_000_000n} ms after ${new Date(later.tick).toISOString()} (fence ${later.fence}) had started`,
          )
        }
      }
    }
  }
  const wrong = await witness.query(
    `select effect.*, tick.state, tick.fence
     from effect
     left join holdfast.schedule on schedule.name = coalesce($1::jsonb ->> effect.schedule, effect.schedule)
     left join holdfast.tick on tick.schedule = key and at = effect.tick and tick.fence = effect.fence and state = 'done'
     where state is null`,
    [JSON.stringify(formerly)],
  )
  expect(wrong).toEqual([])
  const doubled = await witness.query('select schedule, tick from effect group by 1, 2 having count(*) > 1')
  expect(doubled).toEqual([])
  return tally
}
