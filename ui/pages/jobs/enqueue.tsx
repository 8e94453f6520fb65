import './enqueue.css'
import { useEffect, useId, useState } from 'preact/hooks'
import { type ApiError, api } from '../../api.js'
import { shorten } from '../../format.js'
import { useView } from '../../live.js'
import { useMe } from '../../me.js'
import { Dialog } from '../../parts/dialog.js'
import { Scrolled } from '../../parts/payload.js'
import { Notice } from '../../parts/state.js'
import { toast } from '../../parts/toast.js'
import { go, useParams } from '../../routes.js'
import type { Consequence } from '../../wire.js'
import { JsonField, mistakeOf } from './json-field.js'

interface JobForm {
  readonly namespace: string
  readonly queue: string
  readonly kind: string
  /** Input as JSON text. */
  readonly input: string
  readonly priority?: number
}

interface EnqueueProps {
  /** Label of the button, which is also the title of the dialog. */
  readonly label: string
  readonly given: JobForm
  /** Schedule whose job is enqueued. Its kind and queue are fixed. */
  readonly schedule?: string
}

/** Button that enqueues a job with an input. Visitors who may not run the action do not see the button. */
export function Enqueue(props: EnqueueProps) {
  const me = useMe()
  const [isOpen, setOpen] = useState(false)
  if (me.readOnly || !me.rights.includes(props.schedule === undefined ? 'enqueue-job' : 'run-schedule')) return null
  return (
    <>
      <button type="button" class="button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        {props.label}
      </button>
      {isOpen && <EnqueueDialog {...props} onClose={() => setOpen(false)} />}
    </>
  )
}

const previewDelayMs = 300

/** Form for the job. The server checks the form while the visitor types, so that one click enqueues the job. */
function EnqueueDialog({ label, given, schedule, onClose }: EnqueueProps & { readonly onClose: () => void }) {
  const id = useId()
  const [form, setForm] = useState(given)
  const [runAt, setRunAt] = useState('')
  const [checked, setChecked] = useState<{ of: string; consequence?: Consequence; error?: ApiError }>()
  const [isActing, setActing] = useState(false)
  const kinds = useView('job-kinds', { namespace: useParams().namespace }).data ?? []
  const isComplete = form.queue !== '' && form.kind !== ''
  const { namespace, queue, kind, input, priority } = form
  const mistake = mistakeOf(input)
  const at = runAt === '' ? undefined : new Date(runAt).toISOString()
  const key = JSON.stringify([form, at])
  const preview = () =>
    schedule === undefined
      ? api.preview('enqueue-job', { namespace, queue, kind, input, priority, runAt: at })
      : api.preview('run-schedule', { namespace, name: schedule, input })
  const act = () =>
    schedule === undefined
      ? api.act('enqueue-job', { namespace, queue, kind, input, priority, runAt: at })
      : api.act('run-schedule', { namespace, name: schedule, input })
  useEffect(() => {
    if (mistake !== undefined || !isComplete) return
    const timer = setTimeout(() => {
      preview().then(
        (consequence) => setChecked({ of: key, consequence }),
        (error: ApiError) => setChecked({ of: key, error }),
      )
    }, previewDelayMs)
    return () => clearTimeout(timer)
  }, [key])
  const current = checked?.of === key ? checked : undefined
  const isReady = current?.consequence?.applies === true && !isActing
  const enqueue = async () => {
    setActing(true)
    try {
      const { done, text, job } = await act()
      toast({ tone: done ? 'good' : 'warn', text })
      onClose()
      if (job !== undefined) go('jobs', { id: String(job) })
    } catch (error) {
      setChecked({ of: key, error: error as ApiError })
      setActing(false)
    }
  }
  const set = (changed: Partial<JobForm>) => setForm({ ...form, ...changed })
  return (
    <Dialog title={schedule === undefined ? label : `${label}: ${shorten(schedule, 60)}`} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault()
          if (isReady) void enqueue()
        }}
      >
        {schedule === undefined && (
          <div class="enqueue-where">
            <label class="label stack dense">
              Kind
              <input
                class="field"
                list={`${id}kinds`}
                value={kind}
                required
                onInput={({ currentTarget: { value } }) => {
                  const known = kinds.find((one) => one.kind === value)
                  set({ kind: value, ...(known && { queue: known.queue, namespace: known.namespace }) })
                }}
              />
              <datalist id={`${id}kinds`}>
                {kinds.map((one) => (
                  <option key={`${one.namespace} ${one.queue} ${one.kind}`} value={one.kind}>
                    queue {one.queue}
                  </option>
                ))}
              </datalist>
            </label>
            <label class="label stack dense">
              Queue
              <input
                class="field"
                value={queue}
                required
                onInput={({ currentTarget }) => set({ queue: currentTarget.value })}
              />
            </label>
          </div>
        )}
        <JsonField label="Input (JSON)" value={input} onInput={(input) => set({ input })} />
        {isComplete && <KindSchema namespace={namespace} queue={queue} kind={kind} />}
        {schedule === undefined && (
          <label class="label stack dense">
            Earliest start (your local time; empty for now)
            <input
              class="field"
              type="datetime-local"
              value={runAt}
              onInput={({ currentTarget }) => setRunAt(currentTarget.value)}
            />
          </label>
        )}
        <div role="status" class="stack">
          {mistake !== undefined ? (
            <Notice tone="bad">The input is not valid JSON: {mistake}</Notice>
          ) : !isComplete ? (
            <p class="muted">Enter a kind and a queue.</p>
          ) : current?.error ? (
            <Notice tone="bad">{current.error.message}</Notice>
          ) : current?.consequence ? (
            current.consequence.applies ? (
              <p>{current.consequence.text}</p>
            ) : (
              <Notice tone="bad">{current.consequence.text}</Notice>
            )
          ) : (
            <p class="muted">Checking …</p>
          )}
        </div>
        <div class="row end">
          <button type="button" class="button" onClick={onClose}>
            Go back
          </button>
          <button type="submit" class="button main" disabled={!isReady}>
            {isActing ? 'Working …' : 'Enqueue'}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** Shows the JSON schema of the kind, if a worker has registered one. */
function KindSchema(kind: { readonly namespace: string; readonly queue: string; readonly kind: string }) {
  const schema = useView('job-kind', kind).data?.inputSchema
  if (schema === null || schema === undefined) return null
  return (
    <details class="small">
      <summary>JSON schema of the input</summary>
      <Scrolled text={JSON.stringify(schema, null, 2)} />
    </details>
  )
}
