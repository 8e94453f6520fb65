// Runs a real Prometheus that scrapes two working instances, and executes the query of each Grafana panel: each one must return a number. Also
// checks that Prometheus evaluates the alert rules without an error. Runs only with HOLDFAST_ALL, and if Prometheus is installed.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { metricsHandler } from '../../src/telemetry/index.js'
import { root } from '../documentation/lines.js'
import { work } from '../jobs/fixture.js'
import { sql, until } from '../setup/facts.js'
import { anchorPid, databaseUrl, open } from '../setup/instances.js'
import { runsAll } from '../setup/variants.js'

const prometheus = process.env.HOLDFAST_TEST_PROMETHEUS ?? 'prometheus'
const isMissing = runsAll && spawnSync(prometheus, ['--version']).status !== 0
if (isMissing)
  console.warn('Prometheus is not installed, so no panel is queried. HOLDFAST_TEST_PROMETHEUS can name its path.')

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[]
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] }
}

const dashboards = readdirSync(join(root, 'deploy/grafana')).map(
  (file) => JSON.parse(readFileSync(join(root, 'deploy/grafana', file), 'utf8')) as Dashboard,
)

/** Serves an instance's metrics and returns the address. */
async function serveMetrics(holdfast: Holdfast): Promise<string> {
  const metrics = metricsHandler(holdfast)
  const server = createServer((request, response) => void metrics.node(request, response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close().closeAllConnections())
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Starts Prometheus, which scrapes the addresses every second, and returns a function that calls its API. */
async function startPrometheus(addresses: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-prometheus-'))
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [join(root, 'deploy/prometheus/alerts.yml')],
    scrape_configs: [{ job_name: 'shop', static_configs: [{ targets: addresses }] }],
  }
  writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config))
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const { port } = free.address() as AddressInfo
  await new Promise((closed) => free.close(closed))
  const child = spawn(
    prometheus,
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: 'ignore' },
  )
  onTestFinished(async () => {
    child.kill()
    if (child.exitCode === null) await once(child, 'exit')
    rmSync(folder, { recursive: true })
  })
  const api = async (path: string, parameters: Record<string, string> = {}) => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}?${new URLSearchParams(parameters)}`)
    return ((await response.json()) as { data: never }).data
  }
  await until('Prometheus is ready', () =>
    fetch(`http://127.0.0.1:${port}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  return api as <Data>(path: string, parameters?: Record<string, string>) => Promise<Data>
}

/** Repeats an action until the test has finished. Lost sessions make some actions fail. */
function repeat(action: () => Promise<unknown>) {
  let isOver = false
  const ended = (async () => {
    while (!isOver) {
      await action().catch(() => {})
      await sleep(200)
    }
  })()
  onTestFinished(() => {
    isOver = true
    return ended
  })
}

const lead = ({ signal }: { signal: AbortSignal }) =>
  new Promise<void>((end) => signal.addEventListener('abort', () => end()))

/** Uses every module, and repeats what Prometheus measures as a rate. */
async function keepBusy(url: string, one: Holdfast, unlucky: Holdfast) {
  const mail = defineJob('send', { queue: 'mail', run: () => sleep(20) })
  const fails = defineJob('fails', {
    queue: 'mail',
    retry: { attempts: 2, backoff: '1s' },
    run: () => Promise.reject(new Error('no')),
  })
  work(one, [mail, fails])
  repeat(() => one.jobs.enqueueMany(mail, Array(20).fill(null)))
  repeat(() => one.jobs.enqueue(fails))
  one.schedules.add('often', { every: '1s' }, () => sleep(20))
  one.schedules.add('paused', { every: '1h' }, () => {})
  await one.schedules.pause('paused')
  await one.jobs.enqueue(defineJob('waits', { queue: 'quiet' }))
  await one.jobs.pause('quiet')

  // Callers wait for each other, or are refused.
  repeat(() => one.locks.with('lock', { wait: '5s' }, () => sleep(20)))
  repeat(() => unlucky.locks.with('lock', { wait: '5s' }, () => sleep(20)))
  await one.locks.acquire('held')
  repeat(() => one.locks.tryAcquire('held'))
  repeat(() => one.leases.with('lease', { wait: '5s' }, () => sleep(20)))
  await one.leases.acquire('leased')
  repeat(() => one.leases.tryAcquire('leased'))
  repeat(() => one.limits.with('limit', { max: 1, wait: '5s' }, () => sleep(20)))
  await one.limits.acquire('full', { max: 1 })
  repeat(() => one.limits.tryAcquire('full', { max: 1 }))
  repeat(() => one.limits.consume('rate', { rate: '1/h' }))
  let key = 0
  repeat(() => one.once.run(`key ${key++}`, () => sleep(20)))
  one.elections.campaign('indexer', lead)
  one.elections.campaign('fails', () => Promise.reject(new Error('no')))
  one.shares.assign('share', ['a', 'b'], (_, owned) => lead(owned))
  one.shares.assign('fails', ['a'], () => Promise.reject(new Error('no')))

  // Loses its lease, and its session with everything in it.
  repeat(async () => {
    await using lease = await unlucky.leases.acquire('stolen', { ttl: '2s', wait: '5s' })
    await sql(url, "update holdfast.lease set token = 'another', fence = fence + 1 where fence = $1", [lease.fence])
    await lease.extend().catch(() => {})
    await sleep(1_000)
  })
  unlucky.elections.campaign('unlucky', lead)
  repeat(async () => {
    // After a loss, these names stay taken for a moment.
    await Promise.all([unlucky.locks.tryAcquire('lost'), unlucky.limits.tryAcquire('lost', { max: 1 })])
    await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, unlucky)])
    await sleep(1_000)
  })

  // The database refuses to register a worker.
  await sql(
    url,
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$;
     create trigger refuse before insert on holdfast.worker for each row execute function refuse()`,
  )
  const failed = new Promise((resolve) => one.on('worker.failed', resolve))
  work(one, [defineJob('refused', { queue: 'refused', run: () => {} })])
  await failed
  await sql(url, 'drop trigger refuse on holdfast.worker')
}

test.skipIf(!runsAll || isMissing)(
  'each panel of the dashboards shows numbers from a real Prometheus, which accepts the alert rules',
  { timeout: 180_000 },
  async () => {
    const url = await databaseUrl()
    const [one, unlucky] = [await open({ url, name: 'one' }), await open({ url, name: 'unlucky' })]
    const api = await startPrometheus([await serveMetrics(one), await serveMetrics(unlucky)])
    await keepBusy(url, one, unlucky)

    const values = { job: '.*', queue: '.*', __rate_interval: '30s' }
    const queries = dashboards.flatMap(({ panels }) =>
      panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr }))),
    )
    const missing = new Set(queries)
    const numberOf = ({ value: [, text] }: { value: [number, string] }) => Number(text)
    const queryMissing = async () => {
      for (const query of missing) {
        const expr = query.expr.replaceAll(/\$(\w+)/g, (_, name) => values[name as keyof typeof values])
        const { result } = await api<{ result: { value: [number, string] }[] }>('query', { query: expr })
        if (result.some((series) => Number.isFinite(numberOf(series)))) missing.delete(query)
      }
      return missing.size === 0
    }
    await until('every panel shows a number', queryMissing, 60_000).catch(() => {})
    expect([...missing]).toEqual([])
    expect(queries.length).toBeGreaterThan(50)

    for (const { definition } of dashboards.flatMap(({ templating }) => templating.list)) {
      if (definition === undefined) continue
      const [, series, label] = /^label_values\((.+), (\w+)\)$/.exec(definition)!
      const match = series!.replace('$job', values.job)
      expect(await api<string[]>(`label/${label}/values`, { 'match[]': match }), definition).not.toEqual([])
    }

    interface Rule {
      readonly name: string
      readonly health: string
      readonly state: string
    }
    const readRules = async () =>
      (await api<{ groups: { rules: Rule[] }[] }>('rules')).groups.flatMap((group) => group.rules)
    // Alerts without `for` fire as soon as the fourth session or lease is lost.
    for (const alert of ['HoldfastJobsBuried', 'HoldfastSessionsLost', 'HoldfastLeasesLost']) {
      const isFiring = ({ name, state }: Rule) => name === alert && state === 'firing'
      await until(`${alert} fires`, async () => (await readRules()).some(isFiring), 60_000)
    }
    expect((await readRules()).filter(({ health }) => health !== 'ok')).toEqual([])
  },
)
