import { useState } from 'preact/hooks'
import type { Job } from '../../graphics/attempts.js'
import { useMe } from '../../me.js'
import { Confirm } from '../../parts/confirm.js'
import { Dialog } from '../../parts/dialog.js'
import { JsonField, mistakeOf } from './json-field.js'

interface SendEventProps {
  readonly job: Job
}

/** Button that sends the event for which the job waits. Visitors who may not run the action do not see the button. */
export function SendEvent({ job }: SendEventProps) {
  const me = useMe()
  const [data, setData] = useState('null')
  const [stage, setStage] = useState<'closed' | 'data' | 'confirm'>('closed')
  const event = job.steps.find(({ endedAt, event }) => endedAt === null && event !== null)?.event
  if (!event || me.readOnly || !me.rights.includes('send-event')) return null
  const close = () => setStage('closed')
  if (stage === 'confirm') {
    const params = { id: job.id, event, data }
    return (
      <Confirm
        act="send-event"
        params={params}
        label="Send"
        subject={`event "${event}" to job ${job.id}`}
        onClose={close}
      />
    )
  }
  return (
    <>
      <button type="button" class="button" aria-haspopup="dialog" onClick={() => setStage('data')}>
        Send event
      </button>
      {stage === 'data' && (
        <Dialog title={`Data of the event "${event}"`} onClose={close}>
          <form
            class="stack"
            onSubmit={(submitted) => {
              submitted.preventDefault()
              if (mistakeOf(data) === undefined) setStage('confirm')
            }}
          >
            <JsonField label="Data (JSON)" value={data} onInput={setData} />
            <div class="row end">
              <button type="button" class="button" onClick={close}>
                Go back
              </button>
              <button type="submit" class="button main" disabled={mistakeOf(data) !== undefined}>
                Continue
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  )
}
