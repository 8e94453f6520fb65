// What is sampled, how it is called, and the room that it has for noise.
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
  room: number
  unit?: 'bytes'
  ebbs?: boolean
}

interface Sequence {
  name: string
  value: number
  most: number
  cycles: boolean
}

/**
 * By how much noise may move a series that has no trend: a table of few rows takes pages by the eight; and ticks, replacements and
 * what they leave come by the clock, of which one day may have more than another.
 */
const kinds: Record<string, Kind> = {
  'heap of the one that stays, after GC': { room: 2 * MB, unit: 'bytes' },
  'memory of the one that stays': { room: 16 * MB, unit: 'bytes' },
  // Pools fill, and grow empty again, as the machine is busy.
  'sockets of the one that stays': { room: 10, ebbs: true },
  'timers of the one that stays': { room: 10 },
  connections: { room: 10, ebbs: true },
  'advisory locks': { room: 50, ebbs: true },
  // Midnight alone leaves as many in a table as it ages there, for the second until autovacuum comes by.
  dead: { room: 500, ebbs: true },
  'WAL a second': { room: MB / 2, unit: 'bytes' },
  rows: { room: 400 },
  // The last hundred of each schedule are never swept.
  'rows of tick': { room: 2_000 },
  'rows of gap': { room: 2_000 },
  bytes: { room: MB / 4, unit: 'bytes' },
  indexes: { room: MB / 4, unit: 'bytes' },
}

/** A sequence lasts for good if it lasts for longer than anybody will ask. */
const leastYears = 1_000
const weeksOfYear = 52
/** JavaScript knows no larger whole numbers. */
const largest = 2 ** 53

export class Samples {
  /** By name: the values of each day. */
  #series = new Map<string, number[][]>()
  #sequences: Sequence[] = []
  #wal: { lsn: number; at: number } | undefined
  #client: pg.Client

  constructor(client: pg.Client) {
    this.#client = client
  }

  async take(day: number, { heap, rss, sockets, timers }: Sample) {
    const ask = async (text = '') => (await this.#client.query(text)).rows
    const [now] = await ask(sql.now)
    const tables = await ask(sql.tables)
    const counts = tables.map(
      ({ name }) => `select '${name}' as name, count(*)::float8 as rows from holdfast."${name}"`,
    )
    const rows = await ask(counts.join(' union all '))
    const at = performance.now()
    this.#add(day, 'heap of the one that stays, after GC', heap)
    this.#add(day, 'memory of the one that stays', rss)
    this.#add(day, 'sockets of the one that stays', sockets)
    this.#add(day, 'timers of the one that stays', timers)
    this.#add(day, 'connections', now.connections)
    this.#add(day, 'advisory locks', now.locks)
    if (this.#wal) this.#add(day, 'WAL a second', ((now.wal - this.#wal.lsn) / (at - this.#wal.at)) * 1_000)
    this.#wal = { lsn: now.wal, at }
    for (const { name, bytes, indexes, dead } of tables) {
      this.#add(day, `dead rows of ${name}`, dead)
      this.#add(day, `bytes of ${name}`, bytes)
      this.#add(day, `indexes of ${name}`, indexes)
    }
    for (const row of rows) this.#add(day, `rows of ${row.name}`, row.rows)
    this.#sequences = await ask(sql.sequences)
  }

  #add(day: number, name: string, value: number) {
    if (!this.#series.has(name))
      this.#series.set(
        name,
        Array.from({ length: days }, () => []),
      )
    this.#series.get(name)![day]!.push(value)
  }

  /** One line for each series. */
  judged() {
    return [...this.#series].map(([name, series]) => {
      const kind = (kinds[name] ?? kinds[name.slice(0, name.indexOf(' '))])!
      return { ...judge(name, series, kind), unit: kind.unit }
    })
  }

  /** One line for each sequence: how long it lasts when every week takes as much of it. */
  sequences(weeks: number) {
    return this.#sequences.map(({ name, value, most, cycles }) => {
      const years = Math.min(most, largest) / (value / weeks) / weeksOfYear
      return { name, used: value, years, cycles, isOk: cycles || years > leastYears }
    })
  }
}
