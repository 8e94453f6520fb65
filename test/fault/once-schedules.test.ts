import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { EmbeddedServer } from '../../src/embedded/index.js'
import { type Random, randomFrom } from '../property/random.ts'
import { countOf, fixedSeedOf } from '../property/seed.js'
import { sql, until, type Witness } from '../setup/facts.js'
import { runsAll } from '../setup/variants.js'
import { Child } from './children.js'
import { expiryMs, openDatabase, openInstance, openProxy, openServer } from './fixture.js'
import type { SilentProxy } from './silent-proxy.js'

// Processes run the same keys at random while they are killed, frozen and disconnected, and while their sessions are ended. Each key must have one
// effect, and every caller that received a result must have received the result of that effect.

interface Actor {
  child: Child
  proxy: SilentProxy
  /** Number of messages that it has sent when all its steps have finished. */
  messages: number
}

interface Line {
  key: string
  status?: 'done' | 'replayed' | 'in-progress'
  value?: string
  unexpected?: string
}

class Fixture {
  readonly actors: Actor[] = []
  readonly #histories: string[] = []
  readonly #directory = mkdtempSync(join(tmpdir(), 'holdfast-once-'))

  constructor(
    readonly url: string,
    readonly random: Random,
  ) {
    onTestFinished(() => rmSync(this.#directory, { recursive: true, force: true }))
  }

  async fill(size: number): Promise<void> {
    const alive = this.actors.filter(({ child }) => child.isAlive)
    this.actors.splice(0, Number.POSITIVE_INFINITY, ...alive)
    while (this.actors.length < size) this.actors.push(await this.#start())
  }

  async #start(): Promise<Actor> {
    const history = join(this.#directory, `${this.#histories.length}.jsonl`)
    this.#histories.push(history)
    const proxy = await openProxy(this.url)
    // A third of them have no anchor, so their presence is a row.
    const anchor = this.random.chance(0.33) ? 'none' : 'required'
    const child = new Child('./once-actor.ts', { url: proxy.through(this.url), expiryMs, history, anchor })
    await child.first('it is open')
    return { child, proxy, messages: 1 }
  }

  walk(keys: string[], flows: number, steps: number): void {
    for (const actor of this.actors) {
      actor.messages++
      actor.child.send({ seed: this.random.below(2 ** 30), keys, flows, steps })
    }
  }

  async kill({ child, proxy }: Actor): Promise<void> {
    child.kill()
    await child.ended()
    await proxy.close()
  }

  async finish(): Promise<void> {
    for (const { child } of this.actors) child.process.kill('SIGCONT')
    const hasFinished = ({ child, messages }: Actor) => !child.isAlive || child.messages.length === messages
    await until('all processes have finished their steps', () => this.actors.every(hasFinished), 90_000)
  }

  lines(): Line[] {
    return this.#histories.flatMap((history) =>
      readFileSync(history, 'utf8')
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
    )
  }
}

async function prepare(url: string): Promise<void> {
  await sql(
    url,
    `create table effect (name text not null, value text not null);
     create table counter (name text primary key, count integer not null)`,
  )
}

/** Checks that every key has one effect, and that every result is the result of this effect. */
async function judge(fixture: Fixture, url: string, keys: string[]): Promise<string> {
  const instance = await openInstance(url)
  // Runs the keys that no process has completed. A key of a dead run must be free.
  for (const key of keys) {
    const result = await instance.once.run(key, { wait: '20s' }, async ({ tx }) => {
      await tx.query('insert into effect (name, value) values ($1, $2)', [key, 'last'])
      return 'last'
    })
    expect(result.status).not.toBe('in-progress')
  }
  const effects = await sql<{ name: string; values: string[] }>(
    url,
    'select name, array_agg(value) as values from effect group by name',
  )
  expect(effects.filter(({ values }) => values.length !== 1)).toEqual([])
  expect(effects).toHaveLength(keys.length)
  const effectOf = new Map(effects.map(({ name, values }) => [name, values[0]]))
  const lines = fixture.lines()
  expect(lines.filter(({ unexpected }) => unexpected)).toEqual([])
  const results = lines.filter(({ status }) => status === 'done' || status === 'replayed')
  expect(results.filter(({ key, value }) => effectOf.get(key) !== value)).toEqual([])
  const done = results.filter(({ status }) => status === 'done').map(({ key }) => key)
  expect(new Set(done).size).toBe(done.length)
  const last = [...effectOf.values()].filter((value) => value === 'last').length
  return `${keys.length} keys, ${last} of them completed by the judge; ${lines.length} results, ${done.length} done`
}

async function terminateSome(witness: Witness, random: Random): Promise<void> {
  const rows = await witness
    .query<{ pid: number }>(
      `select pid from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
    )
    .catch(() => [])
  if (rows.length > 0) await witness.terminate(random.pick(rows).pid).catch(() => {})
}

const schedules = countOf(1, 2)
const keysEach = 40

test.skipIf(!runsAll)(
  `each key has one effect across ${schedules} schedules of kills, freezes, silent networks and ended sessions`,
  {
    timeout: 0,
  },
  async () => {
    const random = randomFrom(fixedSeedOf('once'))
    const { url, witness } = await openDatabase()
    await prepare(url)
    const fixture = new Fixture(url, random)
    const all: string[] = []
    for (let schedule = 0; schedule < schedules; schedule++) {
      await fixture.fill(4)
      const keys = Array.from({ length: keysEach }, (_, i) => `${schedule}:${i}`)
      all.push(...keys)
      await sql(url, 'insert into counter select unnest($1::text[]), 0', [keys])
      fixture.walk(keys, 6, 25)
      for (let moment = 0; moment < 6; moment++) {
        await sleep(random.below(400))
        const actor = random.pick(fixture.actors)
        const fault = random.fraction()
        if (fault < 0.35) await terminateSome(witness, random)
        else if (fault < 0.55) await fixture.kill(actor)
        else if (fault < 0.75) actor.child.process.kill('SIGSTOP')
        else if (fault < 0.85) actor.child.process.kill('SIGCONT')
        else actor.proxy.silence(...random.pick([['to-client'], ['to-server'], ['to-client', 'to-server']] as const))
      }
      // Longer than the expiry, so that the runs of processes that are still frozen or disconnected are taken over.
      if (random.chance(0.5)) await sleep(expiryMs + random.below(800))
      await fixture.finish()
    }
    console.log(await judge(fixture, url, all))
  },
)

const restarts = countOf(1, 2)

test.skipIf(!runsAll)(
  `each key has one effect across ${restarts} schedules with restarts and crashes of the server`,
  {
    timeout: 0,
  },
  async () => {
    const random = randomFrom(fixedSeedOf('once and restarts'))
    const { server, url }: { server: EmbeddedServer; url: string } = await openServer({ max_connections: '200' })
    // Creates the schema.
    await openInstance(url)
    await prepare(url)
    const fixture = new Fixture(url, random)
    const all: string[] = []
    for (let schedule = 0; schedule < restarts; schedule++) {
      await fixture.fill(3)
      const keys = Array.from({ length: keysEach }, (_, i) => `${schedule}:${i}`)
      all.push(...keys)
      await sql(url, 'insert into counter select unnest($1::text[]), 0', [keys])
      fixture.walk(keys, 6, 25)
      await sleep(random.below(800))
      const frozen = random.chance(0.5) ? random.pick(fixture.actors) : undefined
      frozen?.child.process.kill('SIGSTOP')
      await server.restart(random.pick(['fast', 'immediate']))
      await sleep(random.below(expiryMs))
      await fixture.finish()
    }
    console.log(await judge(fixture, url, all))
  },
)
