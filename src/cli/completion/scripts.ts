import { readFileSync } from 'node:fs'
import { suggest, UsageError } from '../../base/index.js'

export const shells = ['bash', 'zsh', 'fish']

/** Prints a completion script. It quotes all names, because a shell must never evaluate a name's text. */
export function printScript(shell: string): void {
  if (!shells.includes(shell)) {
    const meant = suggest(shell, shells)
    throw new UsageError(
      `Expected the shell to be ${shells.map((known) => `"${known}"`).join(' or ')}, got ${JSON.stringify(shell)}`,
      meant && `Did you mean ${meant}?`,
    )
  }
  process.stdout.write(readFileSync(new URL(`holdfast.${shell}`, import.meta.url)))
}
