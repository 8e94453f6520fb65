import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, api } from '../api.js'
import { shorten } from '../format.js'
import { useMe } from '../me.js'
import type { ActName, ActParamsOf, Consequence } from '../wire.js'
import { Dialog } from './dialog.js'
import { Facts } from './facts.js'
import { Notice } from './notice.js'
import { toast } from './toast.js'

interface ActProps<Name extends ActName> {
  readonly act: Name
  readonly params: ActParamsOf<Name>
  /** What the button says, and the dialog: `Release`. */
  readonly label: string
  /** Of what, for those who do not see the row around it: `invoice:42`. */
  readonly subject: string
  /** Called when it was done. */
  readonly onDone?: () => void
}

/** A button for an action, which asks before it acts. Whoever may not act does not see it. */
export function Act<Name extends ActName>({ act, params, label, subject, onDone }: ActProps<Name>) {
  const me = useMe()
  const [isOpen, setOpen] = useState(false)
  if (me.readOnly || !me.rights.includes(act)) return null
  return (
    <>
      <button type="button" class="button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        {label}
        <span class="visually-hidden"> {subject.slice(0, 100)}</span>
      </button>
      {isOpen && (
        <Confirm
          act={act}
          params={params}
          label={label}
          subject={subject}
          onClose={() => setOpen(false)}
          {...{ onDone }}
        />
      )}
    </>
  )
}

interface ConfirmProps<Name extends ActName> extends Omit<ActProps<Name>, 'onDone'> {
  readonly onDone: (() => void) | undefined
  readonly onClose: () => void
}

/** Says what exactly will happen, from the database now, and asks for a reason where that is dangerous. */
function Confirm<Name extends ActName>({ act, params, label, subject, onDone, onClose }: ConfirmProps<Name>) {
  const [consequence, setConsequence] = useState<Consequence>()
  const [error, setError] = useState<ApiError>()
  const [reason, setReason] = useState('')
  const [isActing, setActing] = useState(false)
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    api.preview(act, params).then(setConsequence, setError)
  }, [])
  // Where one goes on: the reason, or else the way back.
  useEffect(() => {
    if (consequence) form.current?.querySelector<HTMLElement>('input, button')?.focus()
  }, [consequence])
  const confirm = async () => {
    setActing(true)
    setError(undefined)
    try {
      const { done, text } = await api.act(act, params, reason.trim() || undefined)
      toast({ tone: done ? 'good' : 'warn', text })
      if (done) onDone?.()
      onClose()
    } catch (failure) {
      setError(failure as ApiError)
      setActing(false)
    }
  }
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
          {!consequence && !error && <p class="muted">Asking the database what will happen …</p>}
          {consequence &&
            (consequence.dangerous ? <Notice tone="warn">{consequence.text}</Notice> : <p>{consequence.text}</p>)}
          {error && (
            <Notice tone="bad">
              <p>{error.message}</p>
              {error.hint && <p class="muted small">{error.hint}</p>}
            </Notice>
          )}
        </div>
        {consequence?.facts && consequence.facts.length > 0 && <Facts facts={consequence.facts} />}
        {consequence?.dangerous && (
          <label class="label">
            Why?
            <input
              class="field"
              maxLength={500}
              value={reason}
              placeholder="Kept in the audit with your name"
              onInput={({ currentTarget }) => setReason(currentTarget.value)}
            />
          </label>
        )}
        <div class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Leave it
          </button>
          <button type="submit" class={`button ${consequence?.dangerous ? 'dangerous' : 'main'}`} disabled={!isReady}>
            {isActing ? 'Working …' : label}
          </button>
        </div>
      </form>
    </Dialog>
  )
}
