import type { LiveView } from '../../live.js'
import { Copy } from '../../parts/copy.js'
import { Panel } from '../../parts/panel.js'
import type { ViewData } from '../../wire.js'

type Overview = ViewData<'overview'>

/** Returns whether no process has used this database with Holdfast yet, so that there is nothing to show. */
export function isUnused(overview: Overview | undefined): boolean {
  if (!overview) return false
  const { instances, queues, schedules, held, leased } = overview.counts
  return instances + queues + schedules + held + leased + overview.trouble.length === 0
}

const steps = [
  [
    'Open Holdfast in each process of your application:',
    "const holdfast = await Holdfast.open({ url: process.env.DATABASE_URL, name: 'web-1' })",
  ],
  ['Run work under a lock:', "await holdfast.locks.with('invoice:42', async ({ signal, fence }) => { … })"],
  ['Run background jobs:', 'await holdfast.jobs.enqueue(sendEmail, { to })\nholdfast.jobs.work([sendEmail])'],
  ['Run work on a schedule:', "holdfast.schedules.add('hourly-report', { cron: '0 * * * *' }, async (run) => { … })"],
] as const

/** Replaces all panels while no process uses the database. */
export function StartHere({ overview }: { readonly overview: LiveView<Overview> }) {
  return (
    <Panel title="Start here" live={overview} description="No process uses this database with Holdfast yet.">
      <ol class="start stack">
        {steps.map(([text, code]) => (
          <li key={text} class="stack dense">
            <span>{text}</span>
            <div class="empty-code">
              <code>{code}</code>
              <Copy text={code} subject="the code" />
            </div>
          </li>
        ))}
      </ol>
      <p class="start-end muted">This page then shows problems, waits, queues and schedules, with live updates.</p>
    </Panel>
  )
}
