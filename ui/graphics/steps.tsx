import './steps.css'
import { formatDuration, visible } from '../format.js'
import { Shape, type Tone, toneOf } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { Ago, None, When } from '../parts/time.js'
import type { Job } from './attempts.js'

type Step = Job['steps'][number]

/** The steps that a job's handler has recorded, in the order of their start, followed by the wait in progress. */
export function StepStrip({ steps }: { readonly steps: readonly Step[] }) {
  return (
    <ol class="steps">
      {steps.map((step) => (
        <li key={step.name} class={`steps-one ${toneOfStep(step)}${step.endedAt === null ? ' waits' : ''}`}>
          <span class="steps-mark">
            <Shape tone={toneOfStep(step)} />
          </span>
          <span class="steps-name">
            <bdi>{visible(step.name)}</bdi>
            {step.kind !== 'step' && step.kind !== step.name && <span class="muted"> {step.kind}</span>}
          </span>
          <span class="muted">
            <When at={step.endedAt ?? step.startedAt} />
          </span>
          <span class="steps-detail muted small">
            <Detail step={step} />
          </span>
        </li>
      ))}
    </ol>
  )
}

function Detail({ step }: { readonly step: Step }) {
  const { kind, attempt, startedAt, endedAt, until, event } = step
  const attemptText = `attempt ${attempt}`
  if (endedAt !== null) {
    const verb = kind === 'sleep' ? 'slept' : kind === 'event' ? 'waited' : 'took'
    return (
      <>
        {verb} {formatDuration(Date.parse(endedAt) - Date.parse(startedAt))} · {attemptText}
      </>
    )
  }
  return (
    <>
      {event === null ? (
        'sleeps'
      ) : (
        <>
          waits for the event <bdi class="mono">{visible(event)}</bdi>
        </>
      )}{' '}
      until <When at={until} /> (<Ago at={until} />) · {attemptText}
    </>
  )
}

function toneOfStep({ endedAt }: Step): Tone {
  return toneOf(endedAt === null ? 'waiting' : 'done')
}

export function StepTable({ steps }: { readonly steps: readonly Step[] }) {
  return (
    <Table
      label="Steps"
      rows={steps}
      keyOf={({ name }) => name}
      empty={null}
      columns={[
        { title: 'Step', cell: ({ name }) => <bdi>{visible(name)}</bdi>, wide: true },
        { title: 'Kind', cell: ({ kind }) => kind },
        { title: 'Event', cell: ({ event }) => (event === null ? <None /> : <bdi>{visible(event)}</bdi>) },
        { title: 'Started', time: ({ startedAt }) => startedAt },
        { title: 'Recorded', time: ({ endedAt }) => endedAt },
        { title: 'Waits until', time: ({ until }) => until },
        {
          title: 'Duration',
          cell: ({ startedAt, endedAt }) =>
            endedAt === null ? <None /> : formatDuration(Date.parse(endedAt) - Date.parse(startedAt)),
          align: 'end',
        },
        { title: 'Attempt', cell: ({ attempt }) => attempt, align: 'end' },
      ]}
    />
  )
}
