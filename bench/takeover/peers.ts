// The same for the peers, at their defaults: whoever begins the one job is killed, frozen or cut off, and another process stands by. All wait
// at the same time, for nothing else is to do; what has not been taken over when patience ends is told as that, with what its
// documents say.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { present } from '../jobs/contestants.ts'
import { type Fixture, withFixture } from '../jobs/fixture.ts'
import type { Progress } from '../measure.ts'
import { installPeers } from '../peers/install.ts'
import { wayTo } from './cut.ts'

const program = fileURLToPath(new URL('./holder.ts', import.meta.url))
export const patienceMs = 75_000

/** Read in the documents of these versions. */
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
        (['killed', 'frozen', 'cut'] as const).map((how) => withFixture(name, (stage) => lose(stage, how))),
      )
      return [name, { killedMs, frozenMs, cutMs, documented: documented[name] }] as const
    }),
  )
  return Object.fromEntries(outcomes)
}

/** Null when nobody took it over in time. */
async function lose({ name, at, queue }: Fixture, how: 'killed' | 'frozen' | 'cut'): Promise<number | null> {
  const known = at.redisUrl ? 'redisUrl' : 'url'
  const ways = how === 'cut' ? [await wayTo(at[known]!), await wayTo(at[known]!)] : []
  const children = [0, 1].map((one) => {
    const through = ways[one] ? { ...at, [known]: ways[one].url } : at
    return fork(program, [JSON.stringify({ name, at: through })])
  })
  await Promise.all(children.map((child) => once(child, 'message')))
  const begun = children.map(async (child) => {
    await once(child, 'message')
    return child
  })
  try {
    await queue.enqueue({ at: 0 })
    const victim = await Promise.race(begun)
    if (how === 'cut') ways[children.indexOf(victim)]!.cut()
    else victim.kill(how === 'killed' ? 'SIGKILL' : 'SIGSTOP')
    const from = performance.now()
    const other = begun[children.indexOf(victim) === 0 ? 1 : 0]!.then(() => performance.now() - from)
    return await Promise.race([other, new Promise<null>((resolve) => setTimeout(resolve, patienceMs, null))])
  } finally {
    for (const child of children) child.kill('SIGKILL')
    for (const way of ways) way.close()
  }
}
