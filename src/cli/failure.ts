import { CommanderError } from 'commander'
import { visible } from './output.js'

/** The exit codes of every command; `lock run` adds its own, see lock/supervise.ts. */
export const exitCode = { done: 0, failed: 1, usage: 2, conditionNotMet: 3, unreachable: 4 } as const

const codeOf: Record<string, number> = {
  USAGE: exitCode.usage,
  DATABASE_UNREACHABLE: exitCode.unreachable,
  TOO_MANY_CONNECTIONS: exitCode.unreachable,
  LOGIN_REFUSED: exitCode.unreachable,
}

/** Ends the command with this code, for a reason that it has already told. */
export class Exit extends Error {
  constructor(readonly code: number) {
    super()
  }
}

/** Tells what went wrong on stderr, for people or as JSON, and answers with the exit code. */
export async function reportError(error: unknown, asJson: boolean): Promise<number> {
  if (error instanceof Exit) return error.code
  if (error instanceof CommanderError) return reportUsageError(error, asJson)
  // Imported here, because `--help` ends here, too.
  const { errorLine, HoldfastError, toRecordedError } = await import('../base/index.js')
  if (error instanceof HoldfastError) {
    const { code, message, hint, retryable } = error
    printError({ code, message, hint, retryable }, asJson)
    return codeOf[code] ?? exitCode.failed
  }
  // Nothing that we foresaw, so whoever reports it needs the place.
  printError({ code: 'INTERNAL', message: toRecordedError(error).stack ?? errorLine(error) }, asJson)
  return exitCode.failed
}

/** A line for people, or several, beside the data. What is told may be anybody's text, which must not move the cursor. */
export function printMessage(message: string): void {
  process.stderr.write(`${withoutSecrets(message).split('\n').map(visible).join('\n')}\n`)
}

/** Words that make no command: `error: unknown option '--jsn'`, with the suggestion in brackets on a second line. */
function reportUsageError(error: CommanderError, asJson: boolean): number {
  if (error.exitCode === 0) return exitCode.done
  if (error.code !== 'commander.help') {
    const [, message = error.message, suggestion] = /^(?:error: )?(.*?)(?:\n\((.*)\))?$/s.exec(error.message) ?? []
    printError({ code: 'USAGE', message, hint: suggestion ?? 'Add --help to see what there is.' }, asJson)
  }
  // 1 is what the library says unless a command has decided otherwise.
  return error.exitCode === 1 ? exitCode.usage : error.exitCode
}

function printError(
  failure: { code: string; message: string; hint?: string | undefined; retryable?: boolean },
  asJson: boolean,
): void {
  if (asJson) printMessage(JSON.stringify({ error: failure }))
  else printMessage(`holdfast: ${failure.message}${failure.hint ? `\n${failure.hint}` : ''}`)
}

/** Messages do not hold passwords, but a misplaced address among the words is repeated in the complaint
 * about it. (`password` itself stands in our own examples.) */
function withoutSecrets(text: string): string {
  return text
    .replace(/(\w+:\/\/[^\s:@/]*):(?!password@)[^\s@]*@/g, '$1:***@')
    .replace(/(password=)[^\s&'"]+/gi, '$1***')
}
