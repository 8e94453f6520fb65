// A little world in which the names of the documents exist: `invoice:42` is locked, `etl` leased, job 42 can be retried.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineJob, Holdfast } from '../../src/index.js'
import { bin } from '../cli/program.js'
import { bossOf, graphileOf } from '../jobs/import-fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, until } from '../setup/facts.js'
import { root } from './lines.js'

const mail = defineJob('send-email', { queue: 'mail', run: () => {} })
const bounces = defineJob('bounce', {
  queue: 'mail',
  retry: { attempts: 1 },
  run: () => Promise.reject(new Error('no')),
})

const roles = ['app', 'grafana', 'ops']

/** How the documents call an instance. */
const someInstance = '4f1c09aa52be'

export class Cluster {
  readonly env: NodeJS.ProcessEnv
  /** Where shells begin: the files that the examples name are here, and `holdfast` is on the path. */
  readonly place = makePlace()
  readonly #database: FreshDatabase
  readonly #home: Holdfast
  /** Loses its session now and then. */
  readonly #fragile: Holdfast
  readonly #waiter: Holdfast
  readonly #leaving: Holdfast
  readonly #billing: Holdfast

  static async make(): Promise<Cluster> {
    const database = await freshDatabase()
    const namespaces = ['default', 'default', 'default', 'default', 'billing']
    const world = new Cluster(
      database,
      await Promise.all(namespaces.map((namespace) => Holdfast.open({ url: database.url, namespace }))),
    )
    await world.#fill()
    return world
  }

  private constructor(database: FreshDatabase, instances: Holdfast[]) {
    this.#database = database
    const [home, fragile, waiter, leaving, billing] = instances as [Holdfast, Holdfast, Holdfast, Holdfast, Holdfast]
    this.#home = home
    this.#fragile = fragile
    this.#waiter = waiter
    this.#leaving = leaving
    this.#billing = billing
    this.env = { DATABASE_URL: database.url, PATH: `${this.place}/bin:${process.env.PATH}`, HOLDFAST_YES: '1' }
  }

  /** With the name of an instance that lives. */
  named(line: string): string {
    return line.replace(someInstance, this.#leaving.id)
  }

  async #fill(): Promise<void> {
    const home = this.#home
    const billing = this.#billing
    const inputs = Array.from({ length: 50 }, (_, n) => n)
    await Promise.all([
      this.lock('invoice:42')(),
      this.lock('import')(),
      this.lease('etl')(),
      home.locks.acquire('accounts'),
      home.limits.acquire('export:42', { max: 1 }),
      home.limits.consume('api:key', { rate: '5/h' }),
      this.deliver('stripe:evt_42')(),
      home.once.run('stripe:evt_43', () => Promise.reject(new Error('no')), { failures: 'record' }).catch(() => {}),
      billing.locks.acquire('books'),
      billing.leases.acquire('ledger'),
      home.jobs.enqueueMany(mail, inputs, { delay: '1h' }).then(() => billing.jobs.enqueue(mail, null)),
    ])
    const waiting = [
      this.#waiter.locks.acquire('accounts', { wait: '1h' }),
      this.#waiter.limits.acquire('export:42', { max: 1, wait: '1h' }),
    ]
    for (const one of waiting) one.catch(() => {})
    for (const holdfast of [home, billing]) holdfast.schedules.add('invoices', { cron: '0 3 * * *' }, () => {})
    home.jobs.work([bounces])
    await Promise.all([this.bury(), until('a schedule is known', () => billing.schedules.find('invoices'))])
  }

  lock = (name: string) => () =>
    until(`${name} is held`, async () => {
      const lock = await this.#fragile.locks.tryAcquire(name).catch(() => undefined)
      return lock !== undefined
    })

  lease = (name: string) => () => this.#home.leases.tryAcquire(name)

  deliver = (key: string) => () => this.#home.once.run(key, () => ({ paid: 42 }))

  /** A job of the queue `mail` that has failed for good. */
  bury = async () => {
    const { id } = await this.#home.jobs.enqueue(bounces, null)
    await until('it is buried', async () => (await this.#home.jobs.find(id))?.state === 'buried')
  }

  /** The roles that the documents name; of the whole server, and so there is one test file that makes them. */
  roles = async () => {
    for (const role of roles) {
      const [known] = await sql(this.#database.url, 'select from pg_roles where rolname = $1', [role])
      if (!known) await sql(this.#database.url, `create role ${role}`)
    }
  }

  /** A job that waits in pg-boss, and one in graphile-worker. */
  elsewhere = async () => {
    const boss = await bossOf(this.#database.url)
    await boss.createQueue('send-email')
    await boss.send('send-email', { to: 'ada@example.com' })
    const graphile = await graphileOf(this.#database.url)
    await graphile.addJob('send-email', { to: 'ada@example.com' })
  }

  /** What `holdfast doctor --fix` can mend. */
  spoil = () => sql(this.#database.url, 'drop index holdfast.tick_done')

  async end(): Promise<void> {
    await Promise.all([this.#home, this.#fragile, this.#waiter, this.#leaving, this.#billing].map((one) => one.close()))
    // A role that was there before, on a server that is somebody's, may have more than this.
    for (const role of roles) await sql(this.#database.url, `drop owned by ${role}; drop role ${role}`).catch(() => {})
    await this.#database.drop()
    rmSync(this.place, { recursive: true })
  }
}

function makePlace(): string {
  const place = mkdtempSync(join(tmpdir(), 'holdfast-documentation-'))
  for (const directory of ['bin', 'node_modules', 'dist/jobs']) mkdirSync(join(place, directory), { recursive: true })
  symlinkSync(bin, join(place, 'bin/holdfast'))
  symlinkSync(root, join(place, 'node_modules/holdfast'))
  writeFileSync(join(place, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(place, 'input.json'), '{ "rows": 3 }')
  writeFileSync(join(place, 'report.js'), "console.log('report')")
  const job = (kind: string) => `import { defineJob } from 'holdfast'
export default defineJob('${kind}', { queue: '${kind}', run: () => {} })`
  writeFileSync(join(place, 'jobs.js'), job('reports'))
  writeFileSync(join(place, 'dist/jobs/one.js'), job('one'))
  writeFileSync(join(place, 'dist/jobs/two.js'), job('two'))
  const programs = {
    report: 'echo report',
    'sync.sh': 'echo sync',
    'bin/psql': 'echo psql',
  }
  for (const [name, text] of Object.entries(programs)) writeProgram(join(place, name), text)
  // Where these are not installed, what they are given goes through them as it is.
  writeProgram(join(place, 'bin/otherwise'), 'for last; do :; done; if [ -f "$last" ]; then cat "$last"; else cat; fi')
  for (const name of ['jq', 'dot']) {
    if (spawnSync(name, ['-V']).error) symlinkSync(join(place, 'bin/otherwise'), join(place, 'bin', name))
  }
  return place
}

function writeProgram(path: string, text: string): void {
  writeFileSync(path, `#!/bin/sh\n${text}\n`)
  chmodSync(path, 0o755)
}
