#!/usr/bin/env node
import { exitOnClosedStdout } from './closed-stdout.js'
import { reportError } from './failure.js'
import { makeProgram } from './program.js'
import { stopWithNpm } from './signals.js'

stopWithNpm()

exitOnClosedStdout()

// A closed stderr must not end this process, because `lock run` must continue to supervise its command.
process.stderr.on('error', () => {})

/** Reads the raw arguments instead of the settings, because parsing the arguments may be what failed. */
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
// Exits explicitly, because the driver's sockets and the signal listeners may keep a finished process alive.
process.exit(code)
