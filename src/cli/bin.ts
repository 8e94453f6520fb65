#!/usr/bin/env node
import { reportError } from './failure.js'
import { makeProgram } from './program.js'
import { stopWithNpm } from './signals.js'

stopWithNpm()

// `holdfast lock ls | head -1`: whoever reads has had enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit()
  throw error
})

// Whoever heard us is gone, which changes nothing of what is to be done: a command that runs under a lock goes no further without it.
process.stderr.on('error', () => {})

/** Asked of the words themselves: the complaint may be that they make no sense. */
function wantsJson(): boolean {
  const end = process.argv.indexOf('--')
  const ours = process.argv.slice(2, end < 0 ? undefined : end)
  return ours.includes('--json') || ours.includes('--jsonl')
}

let code = 0
try {
  await makeProgram().parseAsync()
} catch (error) {
  code = await reportError(error, wantsJson())
}
// The driver's sockets, and listeners for signals, may keep a process alive that has nothing more to do.
process.exit(code)
