import { formatBytes, formatDuration, shorten } from '../../format.js'
import { useView } from '../../live.js'
import { Act } from '../../parts/confirm.js'
import { Dialog } from '../../parts/dialog.js'
import { Facts } from '../../parts/facts.js'
import { OwnerMark } from '../../parts/instance-mark.js'
import { Name } from '../../parts/name.js'
import { Empty, Panel } from '../../parts/panel.js'
import { Payload, Scrolled } from '../../parts/payload.js'
import { Notice, State } from '../../parts/state.js'
import { TimeAndAge } from '../../parts/time.js'
import { setParams } from '../../routes.js'

interface OneDeliveryProps {
  readonly namespace: string
  readonly deliveryKey: string
}

export function OneDelivery({ namespace, deliveryKey: key }: OneDeliveryProps) {
  const live = useView('delivery', { namespace, key })
  const delivery = live.data?.delivery
  const close = () => setParams({ of: undefined, key: undefined })
  const isOver = delivery?.finishedAt != null
  return (
    <Dialog kind="side" title={`Delivery ${shorten(key, 60)}`} onClose={close}>
      <Panel title="Now" live={live}>
        {delivery === null && (
          <Empty title="There is no such delivery.">
            The key never arrived, its recorded result has expired, or an operator deleted it.
          </Empty>
        )}
        {delivery && (
          <div class="stack">
            {delivery.state === 'lost' && (
              <Notice tone="warn">
                The instance that ran this delivery was lost. The next delivery with this key will run it again.
              </Notice>
            )}
            <Facts
              facts={[
                ['Key', <Name key="key" text={key} maxLength={200} copy />],
                ['Namespace', <bdi key="namespace">{namespace}</bdi>],
                ['State', <State key="state" word={delivery.state} />],
                ['Instance', <OwnerMark key="who" owner={delivery} />],
                ['Started', <TimeAndAge key="started" at={delivery.startedAt} />],
                isOver && ['Ended', <TimeAndAge key="ended" at={delivery.finishedAt!} />],
                isOver && ['Duration', durationText(delivery.startedAt, delivery.finishedAt!)],
                isOver && ['Expires', <TimeAndAge key="expires" at={delivery.expiresAt} />],
                ['Fence', String(delivery.fence)],
                delivery.fingerprint !== null && ['Fingerprint', <Name key="print" text={delivery.fingerprint} copy />],
              ]}
            />
            {delivery.state !== 'in-flight' && (
              <div class="row-acts">
                <Act act="forget-delivery" params={{ namespace, key }} label="Forget" subject={shorten(key, 60)} />
              </div>
            )}
          </div>
        )}
      </Panel>
      {delivery && isOver && (
        <div class="side-by-side">
          <Panel title={delivery.state === 'failed' ? 'Error' : 'Result'} live={live} padded={false}>
            <Payload
              value={delivery.value}
              bytes={delivery.valueBytes}
              isShown={delivery.isValueShown}
              subject="the result"
            />
          </Panel>
          {delivery.bodyBytes !== null && (
            <Panel title="Body" live={live} padded={false} description={formatBytes(delivery.bodyBytes)}>
              {delivery.body === null ? (
                <p class="padded-text muted">Binary data.</p>
              ) : (
                <Scrolled text={delivery.body} />
              )}
            </Panel>
          )}
        </div>
      )}
    </Dialog>
  )
}

/** Returns the duration of a delivery's run as text. */
export function durationText(from: string, to: string): string {
  return formatDuration(Math.max(0, Date.parse(to) - Date.parse(from)))
}
