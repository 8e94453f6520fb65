// Processes of users, as one contestant.
import { fork } from 'node:child_process'
import { once } from 'node:events'

const program = new URL('./user.js', import.meta.url)

/** `crowd` is how many processes, and how many callers in each. */
export async function fleet(name, url, kind, { processes, each }) {
  const children = Array.from({ length: processes }, () => fork(program, [kind, url, String(each)]))
  const message = async (child) => {
    const [answer] = await Promise.race([once(child, 'message'), once(child, 'exit')])
    if (typeof answer !== 'object' || answer === null) throw new Error(`A process of "${name}" ended with ${answer}`)
    return answer
  }
  await Promise.all(children.map(message))
  return {
    name,
    async run(ms) {
      const answers = children.map(message)
      for (const child of children) child.send({ ms })
      const outcomes = await Promise.all(answers)
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
