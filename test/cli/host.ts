// Runs commands of the built command line one after the other, in a process that has loaded it already: to start Node and to
// load what a verb needs takes ten times as long as the verb. All that the program sees of a process of its own is
// given anew for each: the words, the environment, an empty stdin, where stdout and stderr go.
import { Readable } from 'node:stream'

const { makeProgram } = await import('../../dist/cli/program.js')
const { reportError } = await import('../../dist/cli/failure.js')

let said = { stdout: '', stderr: '' }
for (const name of ['stdout', 'stderr'] as const) {
  process[name].write = (chunk: string | Uint8Array) => {
    said[name] += chunk
    return true
  }
}
Object.defineProperty(process, 'stdin', { get: () => Readable.from([]) })

process.on('message', async ({ args, env }: { args: string[]; env: NodeJS.ProcessEnv }) => {
  said = { stdout: '', stderr: '' }
  process.argv = [process.argv[0]!, 'holdfast', ...args]
  process.env = env
  const end = args.indexOf('--')
  const ours = args.slice(0, end < 0 ? undefined : end)
  let status = 0
  try {
    await makeProgram().parseAsync()
  } catch (error) {
    status = await reportError(error, ours.includes('--json') || ours.includes('--jsonl'))
  }
  process.send?.({ status, ...said })
})
process.on('disconnect', () => process.exit())
