import { isUtf8 } from 'node:buffer'
import { noSuchDelivery } from '../../acts/index.js'
import { checkName } from '../../base/index.js'
import { type DeliveryDetails, instanceDetails } from '../../observe/index.js'
import { observe } from '../connect.js'
import { conditionNotMet } from '../failure.js'
import { formatTime } from '../format-time.js'
import { type Fact, printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'

/** Maximum number of characters that are printed as text from a result or a body. The JSON output contains more. */
const maxListed = 2_000

export async function deliveryShow(settings: Settings, key: string): Promise<void> {
  const { namespace } = settings
  checkName(key, 'key')
  const [delivery, now] = await observe(settings, async (observer) => {
    return [await observer.deliveries.find(namespace, key), await observer.now()] as const
  })
  const answer = delivery ? documentOf(delivery) : null
  if (!printDocument<'delivery-show'>(settings, answer) && delivery) printFacts(settings, factsOf(delivery, now))
  if (!delivery) conditionNotMet(noSuchDelivery(key))
}

function documentOf({ value, body, ...delivery }: DeliveryDetails) {
  return {
    ...delivery,
    value: value === null ? null : (JSON.parse(value) as unknown),
    body: body === null ? null : body.toString('base64'),
  }
}

function factsOf(delivery: DeliveryDetails, now: Date): Fact[] {
  const { key, namespace, state, fence, startedAt, finishedAt, expiresAt, fingerprint } = delivery
  const facts: (Fact | false)[] = [
    ['key', key],
    ['namespace', namespace],
    [
      'state',
      state === 'lost' ? 'lost: the instance was lost, so the next delivery with this key will run again' : state,
    ],
    [finishedAt ? 'run by' : 'runs on', `${instanceDetails(delivery)}, fence ${fence}`],
    ['started', formatTime(startedAt, now)],
    finishedAt !== null && ['finished', formatTime(finishedAt, now)],
    finishedAt !== null && ['expires', formatTime(expiresAt, now)],
    fingerprint !== null && ['fingerprint', fingerprint],
    finishedAt !== null && [state === 'failed' ? 'failure' : 'result', valueText(delivery)],
    delivery.body !== null && ['body', bodyText(delivery.body, delivery.bodyBytes!)],
  ]
  return facts.filter((fact) => fact !== false)
}

function valueText({ value, valueBytes }: DeliveryDetails): string {
  if (valueBytes === null) return 'nothing'
  return value === null ? `JSON of ${valueBytes} bytes` : truncate(value, valueBytes)
}

function bodyText(body: Buffer, bytes: number): string {
  return isUtf8(body) && !body.includes(0) ? truncate(body.toString(), bytes) : `${bytes} bytes, binary`
}

function truncate(text: string, bytes: number): string {
  return text.length <= maxListed ? text : `${text.slice(0, maxListed)} … (${bytes} bytes)`
}
