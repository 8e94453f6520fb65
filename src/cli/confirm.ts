import { createInterface } from 'node:readline/promises'
import { UsageError } from '../base/index.js'
import { Exit, exitCode, printMessage } from './failure.js'
import type { Settings } from './settings.js'

/** Asks for confirmation on the terminal. Returns true only if the user answers `y` or `yes`. */
export async function confirm(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const closed = new Promise<string>((resolve) => terminal.once('close', () => resolve('')))
    const answer = await Promise.race([terminal.question(`${question} [y/N] `), closed])
    return /^y(es)?$/i.test(answer.trim())
  } finally {
    terminal.close()
  }
}

/** Returns if `--yes` was given or if the user confirms. Otherwise throws, so that the command does nothing. */
export async function requireConfirmation(settings: Settings, action: string, question: string): Promise<void> {
  if (settings.flag('yes')) return
  if (!process.stdin.isTTY) {
    throw new UsageError(`Nothing was done: ${action} must be confirmed`, 'Add --yes to confirm without a terminal.')
  }
  if (await confirm(question)) return
  printMessage('Nothing was done.')
  throw new Exit(exitCode.failed)
}
