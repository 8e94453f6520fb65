import { readFileSync } from 'node:fs'
import { suggest, UsageError } from '../../base/index.js'

export const shells = ['bash', 'zsh', 'fish']

/**
 * The scripts only ask `holdfast __complete`, so that they never know other words than the program that is installed.
 * Names are anybody's text: the scripts see to it that no shell ever evaluates one.
 */
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
