// Measures the peers' takeover times, with default settings. Two processes serve a queue with one job. The process that
// starts the job is killed, frozen or cut off. All measurements run at the same time, because the processes are idle.
// If the other process has not started the job after `timeoutMs`, the measurement stops and the table shows the
// documented time.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { present } from '../jobs/contestants.ts'
import { type Fixture, withFixture } from '../jobs/fixture.ts'
import type { Progress } from '../measure.ts'
import { installPeers } from '../peers/install.ts'
import { routeTo } from './cut.ts'

const program = fileURLToPath(new URL('./holder.ts', import.meta.url))
export const timeoutMs = 75_000

/** Takeover times according to these versions' documentation. */
const documented: Record<string, string> = {
  'graphile-worker, defaults': '4 h',
  'pg-boss, defaults': '15 min',
  'BullMQ on PostgreSQL, defaults': '30–60 s',
  'BullMQ on Redis, defaults': '30–60 s',
}

export async function peers(progress: Progress) {
  installPeers(progress)
  const names = Object.keys(documented).filter((name) => present().names.includes(name))
  progress(`takeover: ${names.join('; ')}`)
  const outcomes = await Promise.all(
    names.map(async (name) => {
      const [killedMs = null, frozenMs = null, cutMs = null] = await Promise.all(
        (['killed', 'frozen', 'cut'] as const).map((how) => withFixture(name, (fixture) => lose(fixture, how))),
      )
      return [name, { killedMs, frozenMs, cutMs, documented: documented[name] }] as const
    }),
  )
  return Object.fromEntries(outcomes)
}

/** Returns the time until the takeover, or null if the other process did not start the job in time. */
async function lose({ name, addresses, queue }: Fixture, how: 'killed' | 'frozen' | 'cut'): Promise<number | null> {
  const key = addresses.redisUrl ? 'redisUrl' : 'url'
  const routes = how === 'cut' ? [await routeTo(addresses[key]!), await routeTo(addresses[key]!)] : []
  const children = [0, 1].map((one) => {
    const through = routes[one] ? { ...addresses, [key]: routes[one].url } : addresses
    return fork(program, [JSON.stringify({ name, addresses: through })])
  })
  await Promise.all(children.map((child) => once(child, 'message')))
  const starts = children.map(async (child) => {
    await once(child, 'message')
    return child
  })
  try {
    await queue.enqueue({ at: 0 })
    const victim = await Promise.race(starts)
    if (how === 'cut') routes[children.indexOf(victim)]!.cut()
    else victim.kill(how === 'killed' ? 'SIGKILL' : 'SIGSTOP')
    const from = performance.now()
    const other = starts[children.indexOf(victim) === 0 ? 1 : 0]!.then(() => performance.now() - from)
    return await Promise.race([other, new Promise<null>((resolve) => setTimeout(resolve, timeoutMs, null))])
  } finally {
    for (const child of children) child.kill('SIGKILL')
    for (const route of routes) route.close()
  }
}
