import { formatBytes, formatDuration, shorten } from '../../format.js'
import { useView } from '../../live.js'
import { Act } from '../../parts/confirm.js'
import { Details } from '../../parts/details.js'
import { Empty } from '../../parts/empty.js'
import { Facts } from '../../parts/facts.js'
import { OwnerMark } from '../../parts/instance-mark.js'
import { Name } from '../../parts/name.js'
import { Notice } from '../../parts/notice.js'
import { Panel } from '../../parts/panel.js'
import { Payload, Scrolled } from '../../parts/payload.js'
import { State } from '../../parts/state.js'
import { TimeAndAge } from '../../parts/time.js'
import { setParams } from '../../routes.js'

interface OneDeliveryProps {
  readonly namespace: string
  readonly deliveryKey: string
}

/** All about one delivery: who runs it, or ran it, and the answer that duplicates get. */
export function OneDelivery({ namespace, deliveryKey: key }: OneDeliveryProps) {
  const live = useView('delivery', { namespace, key })
  const delivery = live.data?.delivery
  const close = () => setParams({ of: undefined, key: undefined })
  const isOver = delivery?.finishedAt != null
  return (
    <Details label="Delivery" onClose={close}>
      <Panel
        title={shorten(key, 60)}
        live={live}
        tools={
          <button type="button" class="button bare" onClick={close}>
            Close
          </button>
        }
      >
        {delivery === null && (
          <Empty title="There is no such delivery.">
            It was never seen, its answer has expired, or somebody forgot it.
          </Empty>
        )}
        {delivery && (
          <div class="stack">
            {delivery.state === 'lost' && (
              <Notice tone="warn">The instance that ran it is gone. The next arrival of this key runs it again.</Notice>
            )}
            <Facts
              facts={[
                ['Key', <Name key="key" text={key} maxLength={200} copy />],
                ['Namespace', <bdi key="namespace">{namespace}</bdi>],
                ['State', <State key="state" word={delivery.state} />],
                [isOver ? 'Run by' : 'Runs on', <OwnerMark key="who" owner={delivery} />],
                ['Began', <TimeAndAge key="began" at={delivery.startedAt} />],
                isOver && ['Ended', <TimeAndAge key="ended" at={delivery.finishedAt!} />],
                isOver && ['Took', durationText(delivery.startedAt, delivery.finishedAt!)],
                isOver && ['Forgotten', <TimeAndAge key="forgotten" at={delivery.expiresAt} />],
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
          <Panel title={delivery.state === 'failed' ? 'Failure' : 'Answer'} live={live} padded={false}>
            <Payload
              value={delivery.value}
              bytes={delivery.valueBytes}
              isShown={delivery.isValueShown}
              subject="the answer"
            />
          </Panel>
          {delivery.bodyBytes !== null && (
            <Panel title="Body" live={live} padded={false} description={formatBytes(delivery.bodyBytes)}>
              {delivery.body === null ? (
                <p class="payload-none muted">Bytes that are no text.</p>
              ) : (
                <Scrolled text={delivery.body} />
              )}
            </Panel>
          )}
        </div>
      )}
    </Details>
  )
}

/** How long a run took. */
export function durationText(from: string, to: string): string {
  return formatDuration(Math.max(0, Date.parse(to) - Date.parse(from)))
}
