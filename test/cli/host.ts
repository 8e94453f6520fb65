// Runs commands of the built command line one after the other in a process that has already loaded the program: starting
// Node.js and loading the modules takes ten times as long as a command. Before each command, this process resets everything
// that the command sees of its process: the arguments, the environment, an empty stdin, and the output on stdout and stderr.
import { Readable } from 'node:stream'

const { makeProgram } = await import('../../dist/cli/program.js')
const { reportError } = await import('../../dist/cli/failure.js')

let output = { stdout: '', stderr: '' }
for (const name of ['stdout', 'stderr'] as const) {
  process[name].write = (chunk: string | Uint8Array) => {
    output[name] += chunk
    return true
  }
}
Object.defineProperty(process, 'stdin', { get: () => Readable.from([]) })

process.on('message', async ({ args, env }: { args: string[]; env: NodeJS.ProcessEnv }) => {
  output = { stdout: '', stderr: '' }
  process.argv = [process.argv[0]!, 'holdfast', ...args]
  process.env = env
  const end = args.indexOf('--')
  const ownArgs = args.slice(0, end < 0 ? undefined : end)
  let status = 0
  try {
    await makeProgram().parseAsync()
  } catch (error) {
    status = await reportError(error, ownArgs.includes('--json') || ownArgs.includes('--jsonl'))
  }
  process.send?.({ status, ...output })
})
process.on('disconnect', () => process.exit())
