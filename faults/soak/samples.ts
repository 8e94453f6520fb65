// The series of samples, and their margins for noise.
import { readFileSync } from 'node:fs'
import type pg from 'pg'
import { judge } from './judge.ts'
import type { Sample } from './member.ts'
import { days } from './week.ts'

const sql = Object.fromEntries(
  readFileSync(new URL('./server.sql', import.meta.url), 'utf8')
    .split(/^-- name: /m)
    .slice(1)
    .map((section) => [section.slice(0, section.indexOf('\n')), section.slice(section.indexOf('\n'))]),
)

const MB = 1_048_576

interface Kind {
  margin: number
  unit?: 'bytes'
  fluctuates?: boolean
}

interface Sequence {
  name: string
  value: number
  maxValue: number
  cycles: boolean
}

/**
 * Kinds of series. The margin is the largest change that noise causes in a series without a trend. For example, a small table grows by eight pages
 * at a time. Ticks and replacements depend on the clock, so a longer day has more of them.
 */
const kinds: Record<string, Kind> = {
  'heap of the long-running process, after GC': { margin: 2 * MB, unit: 'bytes' },
  'memory of the long-running process': { margin: 16 * MB, unit: 'bytes' },
  // Pools open more connections while the machine is busy, and close them later.
  'sockets of the long-running process': { margin: 10, fluctuates: true },
  'timers of the long-running process': { margin: 10 },
  connections: { margin: 10, fluctuates: true },
  'advisory locks': { margin: 50, fluctuates: true },
  // Each simulated midnight leaves one dead row for each row that it changes, until autovacuum runs a second later.
  dead: { margin: 500, fluctuates: true },
  'WAL per second': { margin: MB / 2, unit: 'bytes' },
  rows: { margin: 400 },
  // The cleanup keeps each schedule's last hundred ticks.
  'rows of tick': { margin: 2_000 },
  'rows of gap': { margin: 2_000 },
  bytes: { margin: MB / 4, unit: 'bytes' },
  indexes: { margin: MB / 4, unit: 'bytes' },
}

/** Minimum time for which each sequence must last. */
const minYears = 1_000
const weeksPerYear = 52
/** Larger integers are not exact in JavaScript. */
const maxInteger = 2 ** 53

export class Samples {
  /** Values of each day, by the name of the series. */
  #series = new Map<string, number[][]>()
  #sequences: Sequence[] = []
  #wal: { lsn: number; at: number } | undefined
  #client: pg.Client

  constructor(client: pg.Client) {
    this.#client = client
  }

  async take(day: number, { heap, rss, sockets, timers }: Sample) {
    const query = async (text = '') => (await this.#client.query(text)).rows
    const [now] = await query(sql.now)
    const tables = await query(sql.tables)
    const counts = tables.map(
      ({ name }) => `select '${name}' as name, count(*)::float8 as rows from holdfast."${name}"`,
    )
    const rows = await query(counts.join(' union all '))
    const at = performance.now()
    this.#add(day, 'heap of the long-running process, after GC', heap)
    this.#add(day, 'memory of the long-running process', rss)
    this.#add(day, 'sockets of the long-running process', sockets)
    this.#add(day, 'timers of the long-running process', timers)
    this.#add(day, 'connections', now.connections)
    this.#add(day, 'advisory locks', now.locks)
    if (this.#wal) this.#add(day, 'WAL per second', ((now.wal - this.#wal.lsn) / (at - this.#wal.at)) * 1_000)
    this.#wal = { lsn: now.wal, at }
    for (const { name, bytes, indexes, dead } of tables) {
      this.#add(day, `dead rows of ${name}`, dead)
      this.#add(day, `bytes of ${name}`, bytes)
      this.#add(day, `indexes of ${name}`, indexes)
    }
    for (const row of rows) this.#add(day, `rows of ${row.name}`, row.rows)
    this.#sequences = await query(sql.sequences)
  }

  #add(day: number, name: string, value: number) {
    if (!this.#series.has(name))
      this.#series.set(
        name,
        Array.from({ length: days }, () => []),
      )
    this.#series.get(name)![day]!.push(value)
  }

  /** Checks each series with the rule. */
  checkSeries() {
    return [...this.#series].map(([name, series]) => {
      const kind = (kinds[name] ?? kinds[name.slice(0, name.indexOf(' '))])!
      return { ...judge(name, series, kind), unit: kind.unit }
    })
  }

  /** Calculates for each sequence how many years it lasts at the run's pace. */
  checkSequences(weeks: number) {
    return this.#sequences.map(({ name, value, maxValue, cycles }) => {
      const years = Math.min(maxValue, maxInteger) / (value / weeks) / weeksPerYear
      return { name, used: value, years, cycles, isOk: cycles || years > minYears }
    })
  }
}
