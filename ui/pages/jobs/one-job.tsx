import type { ComponentChildren } from 'preact'
import { shareOf } from '../../../src/base/job-progress.js'
import { formatNumber, shorten, visible } from '../../format.js'
import { AttemptTable, AttemptTimeline, type Job } from '../../graphics/attempts.js'
import { StepStrip, StepTable } from '../../graphics/steps.js'
import { Workflow, WorkflowTable } from '../../graphics/workflow.js'
import { type LiveView, useView } from '../../live.js'
import { Act } from '../../parts/confirm.js'
import { Copy } from '../../parts/copy.js'
import { Dialog } from '../../parts/dialog.js'
import { type Fact, Facts } from '../../parts/facts.js'
import { OwnerMark } from '../../parts/instance-mark.js'
import { Log } from '../../parts/log.js'
import { Meter } from '../../parts/meter.js'
import { Name, QueueName } from '../../parts/name.js'
import { Empty, Panel } from '../../parts/panel.js'
import { Payload, Scrolled } from '../../parts/payload.js'
import { Notice, State } from '../../parts/state.js'
import { Ago, TimeAndAge, When } from '../../parts/time.js'
import { hrefOf, setParams } from '../../routes.js'
import { Enqueue } from './enqueue.js'
import { SendEvent } from './send-event.js'

/** Side dialog with everything about one job. */
export function OneJob({ id }: { readonly id: string }) {
  const isNumber = /^\d{1,15}$/.test(id)
  const live = useView('job', { id: isNumber ? Number(id) : 0 })
  const job = live.data?.job
  return (
    <Dialog
      kind="side"
      title={job ? `Job ${id}: ${shorten(job.kind, 50)}` : `Job ${id}`}
      onClose={() => setParams({ id: undefined })}
    >
      <Panel title="Now" live={live}>
        {job === null && (
          <Empty title={`Job ${id} does not exist.`}>
            The job never existed, or its record was deleted after the retention time.
          </Empty>
        )}
        {job && <Summary job={job} />}
      </Panel>
      {job && <Attempts job={job} live={live} />}
      {job && <DetailPanels job={job} live={live} />}
    </Dialog>
  )
}

function Summary({ job }: { readonly job: Job }) {
  const { id, state } = job
  return (
    <div class="stack">
      {job.waitsFor && (
        <Notice tone={job.waitsFor.reason === 'worker' || job.waitsFor.reason === 'pause' ? 'warn' : 'quiet'}>
          <strong>Reason: </strong>
          <WaitReason job={job} />
        </Notice>
      )}
      {job.cancelling && (
        <Notice tone="warn">
          Stop requested: <bdi>{job.cancelling}</bdi>. The job ends when its handler returns.
        </Notice>
      )}
      <Facts facts={factsOf(job)} />
      <div class="row-acts">
        {['waiting', 'buried', 'cancelled', 'expired', 'discarded'].includes(state) && (
          <Act
            act="retry-job"
            params={{ id }}
            label={state === 'waiting' ? 'Run now' : 'Retry'}
            subject={`job ${id}`}
          />
        )}
        {['ready', 'running', 'waiting'].includes(state) && (
          <Act act="cancel-job" params={{ id }} label="Cancel" subject={`job ${id}`} />
        )}
        <SendEvent job={job} />
        <EnqueueAgain job={job} />
      </div>
    </div>
  )
}

/** Enqueues another job like this one. The form starts with the input of this job, unless `redact` has changed it. */
function EnqueueAgain({ job }: { readonly job: Job }) {
  const { namespace, queue, kind, input, priority, isInputShown, isInputRedacted } = job
  if (namespace === null || queue === null || !isInputShown || isInputRedacted) return null
  const given = { namespace, queue, kind, input: JSON.stringify(input, null, 2), priority }
  return <Enqueue label="Edit and enqueue again" given={given} />
}

function Attempts({ job, live }: { readonly job: Job; readonly live: LiveView<unknown> }) {
  const failures = job.attempts.toReversed()
  // An error that belongs to no attempt, such as the reason for a cancellation.
  const reason = job.error && job.error.message !== failures[0]?.error.message ? job.error : null
  return (
    <Panel
      title="Attempts"
      live={live}
      count={job.failed + job.crashes + (job.state === 'running' || job.state === 'done' ? 1 : 0)}
      description={job.attempts.length >= 20 ? 'Showing only the last 20 failed attempts.' : undefined}
      table={<AttemptTable job={job} />}
    >
      <AttemptTimeline job={job} />
      {reason && <Failure error={reason}>Job ended</Failure>}
      {failures.map((failure) => (
        <Failure key={failure.attempt} error={failure.error}>
          Attempt {failure.attempt} <OwnerMark owner={failure.instance ? failure : null} /> <When at={failure.at} />
        </Failure>
      ))}
    </Panel>
  )
}

/** An error with its stack trace, which is collapsed by default. */
function Failure({ error, children }: { readonly error: Job['error'] & {}; readonly children: ComponentChildren }) {
  const { name, message, code, stack } = error
  return (
    <section class="job-failure">
      <p class="row muted small">{children}</p>
      <p class="wraps">
        {name && (
          <strong>
            <bdi>{visible(name)}: </bdi>
          </strong>
        )}
        <bdi>{visible(message)}</bdi>
        {code !== null && <span class="muted"> ({visible(code)})</span>}
      </p>
      {stack && (
        <details class="small">
          <summary>Stack trace</summary>
          <Scrolled text={stack} />
        </details>
      )}
    </section>
  )
}

function DetailPanels({ job, live }: { readonly job: Job; readonly live: LiveView<unknown> }) {
  return (
    <>
      {job.steps.length > 0 && (
        <Panel
          title="Steps"
          live={live}
          count={job.stepCount}
          description={
            job.stepCount > job.steps.length ? `Showing only the last ${job.steps.length} steps.` : undefined
          }
          table={<StepTable steps={job.steps} />}
        >
          <StepStrip steps={job.steps} />
        </Panel>
      )}
      {job.log.length > 0 && (
        <Panel
          title="Log"
          live={live}
          count={job.log.length}
          padded={false}
          description={job.log.length >= 100 ? 'Showing the last 100 lines. Earlier lines are not kept.' : undefined}
        >
          <Log lines={job.log} />
        </Panel>
      )}
      <Panel title="Input" live={live} padded={false}>
        <Payload value={job.input} bytes={job.inputBytes} isShown={job.isInputShown} subject="the input" />
      </Panel>
      {job.state === 'done' && (
        <Panel title="Result" live={live} padded={false}>
          <Payload value={job.result} bytes={job.resultBytes} isShown={job.isResultShown} subject="the result" />
        </Panel>
      )}
      {job.meta !== null && (
        <Panel title="Meta" live={live} padded={false}>
          <Payload value={job.meta} bytes={0} isShown subject="the meta" />
        </Panel>
      )}
      {job.linked.length > 1 && (
        <Panel
          title={job.workflow === null ? 'Workflow' : `Workflow ${job.workflow}`}
          live={live}
          count={job.others + 1}
          description={
            job.others + 1 > job.linked.length ? `Showing only the first ${job.linked.length} jobs.` : undefined
          }
          table={<WorkflowTable jobs={job.linked} id={job.id} />}
        >
          <Workflow jobs={job.linked} id={job.id} />
        </Panel>
      )}
    </>
  )
}

function factsOf(job: Job): (Fact | false)[] {
  const {
    queue,
    queueKey,
    namespace,
    lane,
    budgets,
    group,
    priority,
    failed,
    crashes,
    maxCrashes,
    progress,
    uniqueKey,
    fence,
    trace,
  } = job
  return [
    ['State', <State key="state" word={job.pausedAt && job.state === 'ready' ? 'paused' : job.state} />],
    ['Queue', <QueueName key="queue" name={queue} queueKey={queueKey} />],
    namespace !== null && ['Namespace', <bdi key="namespace">{namespace}</bdi>],
    job.instance !== null && ['Instance', <OwnerMark key="instance" owner={job} />],
    ['Enqueued', <TimeAndAge key="enqueued" at={job.enqueuedAt} />],
    job.state === 'waiting' && job.runAt !== null && ['Next run', <TimeAndAge key="next" at={job.runAt} />],
    job.startBy !== null && ['Start by', <TimeAndAge key="start-by" at={job.startBy} />],
    job.claimedAt !== null && ['Claimed', <TimeAndAge key="claimed" at={job.claimedAt} />],
    job.endedAt !== null && ['Ended', <TimeAndAge key="ended" at={job.endedAt} />],
    failed > 0 && ['Failed', failed === 1 ? 'once' : `${failed} times`],
    crashes > 0 && ['Crashed', `${crashes} of at most ${maxCrashes} times, because the worker died`],
    progress !== null && ['Progress', <Progress key="progress" value={progress} />],
    lane !== null && ['Lane', <Name key="lane" text={lane} copy />],
    budgets.length > 0 && ['Budgets', budgets.join(', ')],
    group !== null && ['Group', <Name key="group" text={group} copy />],
    uniqueKey !== null && ['Unique key', <Name key="unique" text={uniqueKey} copy />],
    priority !== 0 && ['Priority', String(priority)],
    fence !== null && ['Fence', String(fence)],
    trace !== null && ['Trace', <Trace key="trace" trace={trace} />],
  ]
}

/**
 * Shows the progress as a bar if it contains the completed fraction. Shows any other progress as text, because its
 * meaning depends on the handler.
 */
function Progress({ value }: { readonly value: NonNullable<Job['progress']> }) {
  const share = shareOf(value)
  const text = typeof value === 'number' ? formatNumber(value) : JSON.stringify(value)
  if (share === undefined) return <bdi>{text}</bdi>
  const percent = `${formatNumber(Math.round(share * 100))} %`
  const caption = typeof value === 'number' ? percent : `${percent} ${text}`
  return <Meter value={share} max={1} label="Progress" tone="busy" caption={caption} />
}

/** Trace in which the job was enqueued. */
function Trace({ trace: { id, url } }: { readonly trace: NonNullable<Job['trace']> }) {
  return (
    <span class="inline">
      {url === null ? (
        <code>{id}</code>
      ) : (
        <a href={url} target="_blank" rel="noreferrer">
          <code>{id}</code>
        </a>
      )}
      <Copy text={id} subject="the trace ID" />
    </span>
  )
}

function WaitReason({ job: { waitsFor, failed, crashes, queue, kind } }: { readonly job: Job }) {
  if (!waitsFor) return null
  const link = (id: number) => <a href={hrefOf('jobs', { id: String(id) })}>{id}</a>
  const before = 'ahead' in waitsFor ? aheadText(waitsFor.ahead) : ''
  switch (waitsFor.reason) {
    case 'time':
      return (
        <>
          The job is scheduled and may run <Ago at={waitsFor.until} />.
        </>
      )
    case 'attempt':
      return (
        <>
          The last attempt {failed === 0 && crashes > 0 ? 'crashed' : 'failed'}. The next attempt may start{' '}
          <Ago at={waitsFor.until} />.
        </>
      )
    case 'sleep':
      return (
        <>
          The job sleeps in the step <Name text={waitsFor.step} /> and continues <Ago at={waitsFor.until} />.
        </>
      )
    case 'event':
      return (
        <>
          The job waits for the event <Name text={waitsFor.event} />. Without the event, it continues{' '}
          <Ago at={waitsFor.until} />.
        </>
      )
    case 'pause':
      return (
        <>
          The queue <Name text={queue ?? ''} /> has been paused since <When at={waitsFor.since} />.
        </>
      )
    case 'worker':
      return waitsFor.unserved === 'queue' ? (
        <>No worker serves its queue. Start a worker with a definition of this queue.</>
      ) : (
        <>
          No worker of the queue has the kind <Name text={kind} />. Start a worker with this definition.
        </>
      )
    case 'turn':
      return <>{waitsFor.ahead === 0 ? 'The job is next in its queue.' : `The job is behind ${before} in its queue.`}</>
    case 'lane':
      return (
        <>
          The lane <Name text={waitsFor.lane} /> is full:{' '}
          {waitsFor.max === 1 ? 'its only place is' : `all ${waitsFor.max} places are`} taken by{' '}
          {waitsFor.running.length === 1 ? 'job ' : 'jobs '}
          {waitsFor.running.map(({ id }, at) => (
            <>
              {at > 0 && ', '}
              {link(id)}
            </>
          ))}
          .{waitsFor.ahead > 0 && ` The job is behind ${before} in the lane.`}
        </>
      )
    case 'budget':
      return (
        <>
          The budget <Name text={waitsFor.budget} />{' '}
          {waitsFor.until ? (
            <>
              has used up its rate until <When at={waitsFor.until} />
            </>
          ) : (
            `has no room: ${waitsFor.used} of ${waitsFor.max} are in use`
          )}
          {waitsFor.ahead > 0 && `, behind ${before}`}.
        </>
      )
    case 'rate':
      return (
        <>
          The rate of the lane <Name text={waitsFor.lane} /> is used up until <When at={waitsFor.until} />
          {waitsFor.ahead > 0 && `, behind ${before}`}.
        </>
      )
    case 'jobs':
      if (waitsFor.jobs.length === 0) return <>All jobs that it depends on have ended. The job is being released.</>
      return (
        <>
          The job depends on {waitsFor.jobs.length === 1 ? 'another job' : 'other jobs'}:{' '}
          {waitsFor.jobs.map(({ id, state }, at) => (
            <>
              {at > 0 && ', '}
              {link(id)} ({state})
            </>
          ))}
          .
        </>
      )
  }
}

function aheadText(ahead: number): string {
  return ahead === 1 ? '1 other job' : `${ahead >= 10_000 ? 'at least ' : ''}${formatNumber(ahead)} other jobs`
}
