// The same for the peers, at their defaults: whoever begins the one job is killed, or frozen, and another process stands by. All wait
// at the same time, for nothing else is to do; what has not been taken over when patience ends is told as that, with what its
// documents say.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { present } from '../jobs/contestants.js'
import { onStage } from '../jobs/stage.js'
import { installPeers } from '../peers/install.js'

const program = fileURLToPath(new URL('./holder.js', import.meta.url))
const patienceMs = 75_000

/** Read in the documents of these versions. */
const documented = {
  'graphile-worker, defaults': '4 h',
  'pg-boss, defaults': '15 min',
  'BullMQ on PostgreSQL, defaults': '30–60 s',
  'BullMQ on Redis, defaults': '30–60 s',
}

export async function peers(progress) {
  installPeers(progress)
  const names = Object.keys(documented).filter((name) => present().names.includes(name))
  progress(`takeover: ${names.join('; ')}`)
  const outcomes = await Promise.all(
    names.map(async (name) => {
      const [killedMs, frozenMs] = await Promise.all([
        onStage(name, (stage) => lose(stage, 'SIGKILL')),
        onStage(name, (stage) => lose(stage, 'SIGSTOP')),
      ])
      return [name, { killedMs, frozenMs, documented: documented[name] }]
    }),
  )
  return Object.fromEntries(outcomes)
}

/** Null when nobody took it over in time. */
async function lose({ name, at, queue }, signal) {
  const words = JSON.stringify({ name, at })
  const children = [fork(program, [words]), fork(program, [words])]
  await Promise.all(children.map((child) => once(child, 'message')))
  const begun = children.map(async (child) => {
    await once(child, 'message')
    return child
  })
  try {
    await queue.enqueue({ at: 0 })
    const victim = await Promise.race(begun)
    victim.kill(signal)
    const from = performance.now()
    const other = begun[children.indexOf(victim) === 0 ? 1 : 0].then(() => performance.now() - from)
    return await Promise.race([other, new Promise((resolve) => setTimeout(resolve, patienceMs, null))])
  } finally {
    for (const child of children) child.kill('SIGKILL')
  }
}
