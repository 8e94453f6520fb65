import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, api } from '../api.js'
import { formatNumber, shorten, visible } from '../format.js'
import { useMe } from '../me.js'
import type { ActName, ActParamsOf, Consequence } from '../wire.js'
import { Dialog } from './dialog.js'
import { Facts } from './facts.js'
import { Notice } from './state.js'
import { toast } from './toast.js'

interface ActProps<Name extends ActName> {
  readonly act: Name
  readonly params: ActParamsOf<Name>
  /** Label of the button, such as `Release`. The dialog's title also starts with this label. */
  readonly label: string
  /** Object of the action, such as `invoice:42`, for screen readers. */
  readonly subject: string
}

/** Button that runs an action after a confirmation. Visitors who may not run the action do not see the button. */
export function Act<Name extends ActName>(props: ActProps<Name>) {
  const { act, label, subject } = props
  const me = useMe()
  const [isOpen, setOpen] = useState(false)
  if (me.readOnly || !me.rights.includes(act)) return null
  return (
    <>
      <button type="button" class="button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        {label}
        <span class="visually-hidden"> {shorten(subject, 100)}</span>
      </button>
      {isOpen && <Confirm {...props} onClose={() => setOpen(false)} />}
    </>
  )
}

export interface ConfirmProps<Name extends ActName> extends ActProps<Name> {
  readonly onClose: () => void
}

/** Returns the namespace of the object that an action changes. Undefined if the parameters contain none. */
export function namespaceIn(params: unknown): string | undefined {
  const { namespace } = params as { readonly namespace?: string | null }
  return namespace ?? undefined
}

/** Shows the action's consequences, based on the database's current state. A dangerous action requires a reason. */
export function Confirm<Name extends ActName>({ act, params, label, subject, onClose }: ConfirmProps<Name>) {
  const { namespaces } = useMe()
  const namespace = namespaceIn(params)
  const [consequence, setConsequence] = useState<Consequence>()
  const [error, setError] = useState<ApiError>()
  const [reason, setReason] = useState('')
  const [isActing, setActing] = useState(false)
  const [changed, setChanged] = useState(0)
  const isStopped = useRef(false)
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    api.preview(act, params).then(setConsequence, setError)
  }, [])
  useEffect(
    () => () => {
      isStopped.current = true
    },
    [],
  )
  // Focuses the field for the reason. If there is no such field, focuses the first button, which closes the dialog.
  useEffect(() => {
    if (consequence) form.current?.querySelector<HTMLElement>('input, button')?.focus()
  }, [consequence])
  const confirm = async () => {
    setActing(true)
    setError(undefined)
    try {
      const run = (next?: object) =>
        api.act(act, { ...(params as object), ...next } as ActParamsOf<Name>, reason.trim() || undefined)
      let outcome = await run()
      let all = outcome.count ?? 0
      // An act on many objects needs several requests. No further request is sent after the visitor has closed the
      // dialog.
      while (outcome.next && !isStopped.current) {
        setChanged(all)
        outcome = await run(outcome.next)
        all += outcome.count ?? 0
      }
      const total = all > (outcome.count ?? 0) ? ` In total: ${formatNumber(all)}.` : ''
      toast({ tone: outcome.done || all > 0 ? 'good' : 'warn', text: `${outcome.text}${total}` })
      onClose()
    } catch (failure) {
      setError(failure as ApiError)
      setActing(false)
    }
  }
  // Two namespaces can contain the same name.
  const facts: readonly (readonly [string, string])[] = [
    ...(consequence && namespace !== undefined && namespaces.length > 1
      ? [['Namespace', visible(namespace)] as const]
      : []),
    ...(consequence?.facts ?? []).map(([label, value]) => [visible(label), visible(value)] as const),
  ]
  const isReady = consequence?.applies === true && !isActing && (!consequence.dangerous || reason.trim() !== '')
  return (
    <Dialog title={`${label} ${shorten(consequence?.subject ?? subject, 60)}?`} onClose={onClose}>
      <form
        ref={form}
        class="stack"
        onSubmit={(event) => {
          event.preventDefault()
          if (isReady) void confirm()
        }}
      >
        <div role="status" class="stack">
          {!consequence && !error && <p class="muted">Loading the consequences …</p>}
          {consequence &&
            (consequence.dangerous ? (
              <Notice tone="warn">{visible(consequence.text)}</Notice>
            ) : (
              <p>{visible(consequence.text)}</p>
            ))}
          {error && (
            <Notice tone="bad">
              <p>{visible(error.message)}</p>
              {error.hint && <p class="muted small">{error.hint}</p>}
            </Notice>
          )}
        </div>
        {facts.length > 0 && <Facts facts={facts} />}
        {consequence?.dangerous && (
          <label class="label stack dense">
            Reason
            <input
              class="field"
              maxLength={500}
              value={reason}
              placeholder="Recorded in the audit log with your name"
              onInput={({ currentTarget }) => setReason(currentTarget.value)}
            />
          </label>
        )}
        <div class="row end">
          <button type="button" class="button" onClick={onClose}>
            {isActing && changed > 0 ? 'Stop' : 'Go back'}
          </button>
          <button type="submit" class={`button ${consequence?.dangerous ? 'dangerous' : 'main'}`} disabled={!isReady}>
            {isActing ? `Working …${changed > 0 ? ` ${formatNumber(changed)} so far` : ''}` : label}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

interface PauseProps {
  readonly of: 'queue' | 'schedule'
  readonly isPaused: boolean
  readonly params: ActParamsOf<'pause-queue'> & ActParamsOf<'pause-schedule'>
  readonly subject: string
}

export function PauseOrResume({ of, isPaused, params, subject }: PauseProps) {
  const act = isPaused ? (`resume-${of}` as const) : (`pause-${of}` as const)
  return <Act act={act} params={params} label={isPaused ? 'Resume' : 'Pause'} subject={subject} />
}
