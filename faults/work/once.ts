import type { Delivery } from 'holdfast'
import { deliveryOf, webhooks } from 'holdfast/http'
import type { Random } from '../../test/property/random.ts'
import type { Fixture, Work } from './fixture.ts'

/** The body that a key stands for; at times another one comes, which must never get its answer. */
const bodies = ['right', 'wrong']

interface Answered {
  readonly by: string
}

/**
 * A delivery, of which there are few for a while, so that they meet: its effect is a row, and its answer says who made it, from
 * which body. Half of them are webhooks.
 */
export function once({ holdfast, keep, write, ofTheUser }: Fixture): Work {
  let runs = 0
  const effect = async ({ tx }: Pick<Delivery, 'tx'>, key: string, body: string, random: Random) => {
    const by = `${process.pid}:${++runs}:${body}`
    await tx.query('insert into effect (what, id, by) values ($1, $2, $3)', ['delivery', key, by])
    await keep(random)
    if (random.chance(0.1)) throw new Error('by chance', { cause: ofTheUser })
    return { by }
  }
  const called = async (key: string, body: string, random: Random, wait: number) => {
    const answer = await holdfast.once.run(key, (delivery) => effect(delivery, key, body, random), {
      wait,
      fingerprint: body,
    })
    return answer.status === 'in-progress' ? undefined : (answer.value as Answered)
  }
  const posted = async (key: string, body: string, random: Random, wait: number) => {
    const events = webhooks(holdfast.once, { key: () => key, wait })
    const handle = events.fetch(async (request) => Response.json(await effect(deliveryOf(request)!, key, body, random)))
    const response = await handle(new Request('http://127.0.0.1/', { method: 'POST', body }))
    return response.status === 200 ? ((await response.json()) as Answered) : undefined
  }
  return {
    flows: 3,
    async step(random) {
      // All instances get the same ones, whatever their clocks say.
      const slot = process.hrtime.bigint() / 3_000_000_000n
      const number = random.below(8)
      const body = bodies[random.chance(0.1) ? 1 : 0]!
      const wait = random.chance(0.5) ? random.below(300) : 0
      const deliver = number < 4 ? called : posted
      const key = `${slot}/${number}`
      try {
        const answer = await deliver(key, body, random, wait)
        if (answer) write('answered', { key, by: answer.by, body })
      } catch (error) {
        if ((error as { code?: string }).code !== 'FINGERPRINT_MISMATCH') throw error
      }
    },
  }
}
