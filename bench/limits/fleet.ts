// Runs several processes of callers as one contestant.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Outcome } from '../measure.ts'

const program = new URL('./user.ts', import.meta.url)

interface Crowd {
  processes: number
  /** Number of callers in each process. */
  each: number
}

export async function fleet(name: string, url: string, kind: string, { processes, each }: Crowd) {
  const children = Array.from({ length: processes }, () => fork(program, [kind, url, String(each)]))
  const message = async (child: ChildProcess): Promise<Outcome> => {
    const [reply] = await Promise.race([once(child, 'message'), once(child, 'exit')])
    if (typeof reply !== 'object' || reply === null) throw new Error(`A process of "${name}" ended with ${reply}`)
    return reply
  }
  await Promise.all(children.map(message))
  return {
    name,
    async run(ms: number) {
      const replies = children.map(message)
      for (const child of children) child.send({ ms })
      const outcomes = await Promise.all(replies)
      return {
        perSecond: outcomes.reduce((sum, { perSecond }) => sum + perSecond, 0),
        waitsMs: outcomes.flatMap(({ waitsMs }) => waitsMs),
      }
    },
    async close() {
      await Promise.all(
        children.map(async (child) => {
          if (child.exitCode !== null) return
          child.disconnect()
          await once(child, 'exit')
        }),
      )
    },
  }
}
