// Creates the objects that the documentation names: `invoice:42` is locked, `etl` is leased, and job 42 can be retried.
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

const mail = defineJob<unknown>('send-email', { queue: 'mail', run: () => {} })
const bounces = defineJob('bounce', {
  queue: 'mail',
  retry: { attempts: 1 },
  run: () => Promise.reject(new Error('no')),
})

const roles = ['app', 'grafana', 'ops']

/** The id and the names of instances that the documentation uses. */
const documentedInstance = /4f1c09aa52be|web-1\/4242/
const documentedName = 'worker-3'

export class Cluster {
  readonly env: NodeJS.ProcessEnv
  /** Working directory of the shells. It contains the files that the examples name, and `holdfast` is on the path. */
  readonly place = makePlace()
  readonly #database: FreshDatabase
  readonly #home: Holdfast
  /** The instance whose session `lock break` ends. */
  readonly #fragile: Holdfast
  readonly #waiter: Holdfast
  readonly #leaving: Holdfast
  readonly #billing: Holdfast

  static async make(): Promise<Cluster> {
    const database = await freshDatabase()
    const namespaces = ['default', 'default', 'default', 'default', 'billing']
    const cluster = new Cluster(
      database,
      await Promise.all(
        namespaces.map((namespace, at) =>
          Holdfast.open({ url: database.url, namespace, name: at === 3 ? documentedName : undefined }),
        ),
      ),
    )
    await cluster.#fill()
    return cluster
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

  /** Replaces the documented instance id by the id of a running instance. */
  named(line: string): string {
    return line.replace(documentedInstance, this.#leaving.id)
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
      home.once.run('stripe:evt_43', { failures: 'record' }, () => Promise.reject(new Error('no'))).catch(() => {}),
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
    await Promise.all([this.bury(), until('the schedule is in the database', () => billing.schedules.find('invoices'))])
  }

  lock = (name: string) => () =>
    until(`${name} is held`, async () => {
      const lock = await this.#fragile.locks.tryAcquire(name).catch(() => undefined)
      return lock !== undefined
    })

  lease = (name: string) => () => this.#home.leases.tryAcquire(name)

  deliver = (key: string) => () => this.#home.once.run(key, () => ({ paid: 42 }))

  /** Adds a buried job to the queue `mail`. */
  bury = async () => {
    const { id } = await this.#home.jobs.enqueue(bounces, null)
    await until('the job is buried', async () => (await this.#home.jobs.find(id))?.state === 'buried')
  }

  /** Creates the roles that the documentation names. Roles belong to the whole server, so only one test file may create them. */
  roles = async () => {
    for (const role of roles) {
      const [known] = await sql(this.#database.url, 'select from pg_roles where rolname = $1', [role])
      if (!known) await sql(this.#database.url, `create role ${role}`)
    }
  }

  /** Adds a waiting job to pg-boss and one to graphile-worker. */
  elsewhere = async () => {
    const boss = await bossOf(this.#database.url)
    await boss.createQueue('send-email')
    await boss.send('send-email', { to: 'ada@example.com' })
    const graphile = await graphileOf(this.#database.url)
    await graphile.addJob('send-email', { to: 'ada@example.com' })
  }

  /** Creates a problem that `holdfast doctor --fix` can fix. */
  spoil = () => sql(this.#database.url, 'drop index holdfast.tick_done')

  async end(): Promise<void> {
    await Promise.all([this.#home, this.#fragile, this.#waiter, this.#leaving, this.#billing].map((one) => one.close()))
    // On a server that the tests do not own, the roles may have existed before and may own other objects.
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
  // If jq or dot is not installed, this program replaces it and prints its input.
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
