import type { Delivery } from 'holdfast'
import { deliveryOf, webhooks } from 'holdfast/http'
import type { Random } from '../../test/property/random.ts'
import type { Fixture, Workload } from './fixture.ts'

/** Delivery bodies. A delivery with the wrong body must never receive the right one's result. */
const bodies = ['right', 'wrong']

interface DeliveryResult {
  readonly by: string
}

/** All instances of the process share the numbers. */
let runs = 0

/**
 * Runs one of a few keys, so that several instances often run the same key at the same time. The effect is a row, and the result names the run
 * and its body. Half of the keys are webhooks.
 */
export function once({ holdfast, pause, write, userError }: Fixture): Workload {
  const effect = async ({ tx }: Pick<Delivery, 'tx'>, key: string, body: string, random: Random) => {
    const by = `${process.pid}:${++runs}:${body}`
    await tx.query('insert into public.effect (what, id, by) values ($1, $2, $3)', ['delivery', key, by])
    await pause(random)
    if (random.chance(0.1)) throw new Error('by chance', { cause: userError })
    return { by }
  }
  const runOnce = async (key: string, body: string, random: Random, wait: number) => {
    const result = await holdfast.once.run(
      key,
      {
        wait,
        fingerprint: body,
      },
      (delivery) => effect(delivery, key, body, random),
    )
    return result.status === 'in-progress' ? undefined : (result.value as DeliveryResult)
  }
  const postWebhook = async (key: string, body: string, random: Random, wait: number) => {
    const events = webhooks(holdfast.once, { key: () => key, wait })
    const handle = events.fetch(async (request) => Response.json(await effect(deliveryOf(request)!, key, body, random)))
    const response = await handle(new Request('http://127.0.0.1/', { method: 'POST', body }))
    return response.status === 200 ? ((await response.json()) as DeliveryResult) : undefined
  }
  return {
    flows: 3,
    async step(random) {
      // All instances use the same keys at the same time, because this clock is the same in all of them.
      const slot = process.hrtime.bigint() / 3_000_000_000n
      const number = random.below(8)
      const body = bodies[random.chance(0.1) ? 1 : 0]!
      const wait = random.chance(0.5) ? random.below(300) : 0
      const deliver = number < 4 ? runOnce : postWebhook
      const key = `${slot}/${number}`
      try {
        const result = await deliver(key, body, random, wait)
        if (result) write('delivered', { key, by: result.by, body })
      } catch (error) {
        if ((error as { code?: string }).code !== 'FINGERPRINT_MISMATCH') throw error
      }
    },
  }
}
