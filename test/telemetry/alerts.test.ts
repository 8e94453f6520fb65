// Evaluates the alert rules with promtool, which is part of Prometheus: each rule fires on one set of series and is silent on another. The tests
// run only if promtool is installed. operations.test.ts checks the names of metrics and labels without promtool.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

type Labels = Record<string, string>

interface Rule {
  readonly alert: string
  readonly labels: Labels
  readonly annotations: Labels
}

const rulesFile = fileURLToPath(new URL('../../deploy/prometheus/alerts.yml', import.meta.url))
const { load } = createRequire(import.meta.url)('js-yaml') as {
  load: (text: string) => { groups: { rules: Rule[] }[] }
}
const rules = load(readFileSync(rulesFile, 'utf8')).groups.flatMap((group) => group.rules)

const promtool = process.env.HOLDFAST_TEST_PROMTOOL ?? 'promtool'
const isMissing = spawnSync(promtool, ['--version']).status !== 0
if (isMissing)
  console.warn('promtool is not installed, so no alert is evaluated. HOLDFAST_TEST_PROMTOOL can name its path.')

interface Case {
  /** Values of each series, one per minute, in the notation of promtool: `0+1x60` increases by 1 for 60 minutes. */
  readonly fires: Labels
  readonly silent: Labels
  /** Labels of the alert. Default: only `job`. */
  readonly labels?: Labels
  /** Minute of the evaluation. Default: 55. */
  readonly minute?: number
}

const target = 'job="shop",instance="a:9464"'
const job = { job: 'shop' }
const instance = { ...job, instance: 'a:9464' }
const queue = { ...job, queue: 'mail' }
const schedule = { ...job, schedule: 'nightly' }
const day = 1_500

/** Adds the labels of the scrape target to a series. */
const of = (series: string) => series.replace(/\{|$/, (end) => (end === '{' ? `{${target},` : `{${target}}`))
const lost = of('holdfast_lease_hold_duration_seconds_count{holdfast_outcome="lost"}')
const failed = of(
  'holdfast_schedule_run_duration_seconds_count{holdfast_schedule_name="nightly",holdfast_outcome="failed"}',
)
const attempts = (outcome: string) =>
  of(
    `messaging_process_duration_seconds_count{messaging_destination_name="mail",holdfast_job_kind="send",holdfast_outcome="${outcome}"}`,
  )
const waits = of('holdfast_lock_wait_duration_seconds_count{holdfast_lock_mode="exclusive"}')
const shortWaits = of('holdfast_lock_wait_duration_seconds_bucket{holdfast_lock_mode="exclusive",le="30"}')
const ofMail = (metric: string) => of(`${metric}{queue="mail"}`)
const ofNightly = (metric: string) => of(`${metric}{schedule="nightly"}`)
const always = (value: number) => `${value}+0x2000`

const cases: Record<string, Case> = {
  HoldfastNoMetrics: { fires: {}, silent: { [of('holdfast_instance_up')]: always(0) }, labels: {}, minute: 3 },
  HoldfastInstanceDegraded: {
    fires: { [of('holdfast_instance_up')]: always(0) },
    silent: { [of('holdfast_instance_up')]: always(1) },
    labels: instance,
  },
  HoldfastDatabaseUnreachable: {
    fires: { [of('holdfast_database_up')]: always(0) },
    silent: { [of('holdfast_database_up')]: always(1) },
    labels: instance,
  },
  HoldfastDatabaseSlow: {
    fires: { [of('holdfast_database_answer_seconds')]: always(0.5) },
    silent: { [of('holdfast_database_answer_seconds')]: always(0.01) },
    labels: instance,
  },
  HoldfastSessionsLost: {
    fires: { [of('holdfast_instance_losses_total{error_type="DATABASE_UNREACHABLE"}')]: '0+1x60' },
    silent: { [of('holdfast_instance_losses_total{error_type="DATABASE_UNREACHABLE"}')]: always(7) },
  },
  HoldfastSeveralVersions: {
    fires: {
      [of('holdfast_instances{version="1.0.0"}')]: always(2),
      [of('holdfast_instances{version="1.1.0"}')]: always(1),
    },
    silent: { [of('holdfast_instances{version="1.0.0"}')]: always(2) },
    minute: 65,
  },
  HoldfastQueueNotDrained: {
    fires: { [ofMail('holdfast_queue_oldest_ready_seconds')]: '0+60x60', [ofMail('holdfast_queue_paused')]: always(0) },
    silent: {
      [ofMail('holdfast_queue_oldest_ready_seconds')]: '0+60x60',
      [ofMail('holdfast_queue_paused')]: always(1),
    },
    labels: queue,
  },
  HoldfastQueueWithoutWorker: {
    fires: { [ofMail('holdfast_queue_ready')]: always(5), [ofMail('holdfast_queue_workers')]: always(0) },
    silent: { [ofMail('holdfast_queue_ready')]: always(5), [ofMail('holdfast_queue_workers')]: always(1) },
    labels: queue,
  },
  HoldfastQueuePaused: {
    fires: { [ofMail('holdfast_queue_paused')]: always(1) },
    silent: { [ofMail('holdfast_queue_paused')]: always(0) },
    labels: queue,
    minute: 65,
  },
  HoldfastJobsBuried: {
    fires: { [ofMail('holdfast_queue_buried')]: '3+0x50 4+0x10' },
    silent: { [ofMail('holdfast_queue_buried')]: always(3) },
    labels: queue,
  },
  HoldfastAttemptsFail: {
    fires: { [attempts('retried')]: '0+1x60', [attempts('buried')]: '0+1x60', [attempts('done')]: '0+1x60' },
    silent: { [attempts('retried')]: '0+1x60', [attempts('done')]: '0+2x60' },
    labels: { ...job, messaging_destination_name: 'mail', holdfast_job_kind: 'send' },
  },
  HoldfastScheduleLate: {
    fires: { [ofNightly('holdfast_schedule_late_seconds')]: '0+0x54 40' },
    silent: { [ofNightly('holdfast_schedule_late_seconds')]: '0+0x54 10' },
    labels: schedule,
  },
  HoldfastScheduleRunFailed: {
    // The process reports no sample before its first failure.
    fires: { [failed]: '_x50 1+0x10' },
    silent: { [failed]: always(1) },
    labels: { ...job, holdfast_schedule_name: 'nightly' },
  },
  HoldfastScheduleWithoutSuccess: {
    fires: { [ofNightly('holdfast_schedule_last_success_timestamp_seconds')]: always(60) },
    silent: { [ofNightly('holdfast_schedule_last_success_timestamp_seconds')]: '0+60x2000' },
    labels: schedule,
    minute: day + 60,
  },
  HoldfastSchedulePaused: {
    fires: { [ofNightly('holdfast_schedule_paused')]: always(1) },
    silent: { [ofNightly('holdfast_schedule_paused')]: always(0) },
    labels: schedule,
    minute: day,
  },
  HoldfastLeaderMissing: {
    fires: {
      [of('holdfast_election_leading{election="indexer"}')]: always(0),
      'holdfast_election_leading{job="shop",instance="b:9464",election="indexer"}': '1+0x50 0+0x10',
    },
    silent: {
      [of('holdfast_election_leading{election="indexer"}')]: always(0),
      'holdfast_election_leading{job="shop",instance="b:9464",election="indexer"}': always(1),
    },
    labels: { ...job, election: 'indexer' },
  },
  HoldfastLeaderChangesOften: {
    fires: { [of('holdfast_election_term_duration_seconds_count{holdfast_election_name="indexer"}')]: '0+1x60' },
    silent: { [of('holdfast_election_term_duration_seconds_count{holdfast_election_name="indexer"}')]: always(9) },
    labels: { ...job, holdfast_election_name: 'indexer' },
  },
  HoldfastLockWaitsLong: {
    fires: { [waits]: '0+3x60', [shortWaits]: '0+1x60' },
    silent: { [waits]: '0+3x60', [shortWaits]: '0+3x60' },
  },
  HoldfastLeasesLost: { fires: { [lost]: '0+1x60' }, silent: { [lost]: always(9) } },
}

test('every alert has a case', () => {
  expect(Object.keys(cases)).toEqual(rules.map(({ alert }) => alert))
})

const patient = { timeout: 120_000 }

/** Replaces the labels in an annotation. */
const rendered = (text: string, labels: Labels) =>
  text.replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, (_, label) => labels[label]!)

test.skipIf(isMissing)(
  'promtool confirms that each alert fires, and that it is silent without the problem',
  patient,
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-alerts-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const write = (name: string, content: object) => {
      const file = join(folder, name)
      writeFileSync(file, JSON.stringify(content))
      return file
    }
    // Each rule is evaluated alone, because promtool evaluates all rules of a file every minute.
    const files = rules.map((rule) => {
      const { alert, annotations } = rule
      const { fires, silent, labels = job, minute = 55 } = cases[alert]!
      const expected = {
        exp_labels: { ...rule.labels, ...labels },
        exp_annotations: Object.fromEntries(
          Object.entries(annotations).map(([name, text]) => [name, rendered(text, labels)]),
        ),
      }
      const given = (series: Labels, alerts: object[]) => ({
        interval: '1m',
        input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
        alert_rule_test: [{ eval_time: `${minute}m`, alertname: alert, exp_alerts: alerts }],
      })
      const ruleFile = write(`${alert}.rule.json`, { groups: [{ name: alert, rules: [rule] }] })
      return write(`${alert}.json`, {
        rule_files: [ruleFile],
        evaluation_interval: '1m',
        tests: [given(fires, [expected]), given(silent, [])],
      })
    })
    const { status, stdout, stderr } = spawnSync(promtool, ['test', 'rules', ...files], { encoding: 'utf8' })
    expect(`${stdout}${stderr}`.match(/SUCCESS/g) ?? [], `${stdout}${stderr}`).toHaveLength(rules.length)
    expect(status).toBe(0)
  },
)
