import { CommanderError } from 'commander'
import { visible } from './output.js'

/** Exit codes that all commands use. lock/supervise.ts defines additional exit codes for `lock run`. */
export const exitCode = { done: 0, failed: 1, usage: 2, conditionNotMet: 3, unreachable: 4 } as const

const codeOf: Record<string, number> = {
  USAGE: exitCode.usage,
  DATABASE_UNREACHABLE: exitCode.unreachable,
  TOO_MANY_CONNECTIONS: exitCode.unreachable,
  LOGIN_REFUSED: exitCode.unreachable,
}

/** Thrown to end the command with this exit code. The command has already reported the reason. */
export class Exit extends Error {
  constructor(readonly code: number) {
    super()
  }
}

/** Prints a message and ends a command that had nothing to do. */
export function conditionNotMet(message: string): never {
  printMessage(message)
  throw new Exit(exitCode.conditionNotMet)
}

/** Reports an error on stderr, as text or as JSON, and returns the exit code. */
export async function reportError(error: unknown, asJson: boolean): Promise<number> {
  if (error instanceof Exit) return error.code
  if (error instanceof CommanderError) return reportUsageError(error, asJson)
  // Imported here and not at the top, because `--help` returns earlier and must be fast.
  const { errorLine, HoldfastError, toRecordedError } = await import('../base/index.js')
  if (error instanceof HoldfastError) {
    const { code, message, hint, retryable } = error
    printError({ code, message, hint, retryable }, asJson)
    return codeOf[code] ?? exitCode.failed
  }
  // The error is unexpected, so a bug report needs its stack trace.
  printError({ code: 'INTERNAL', message: toRecordedError(error).stack ?? errorLine(error) }, asJson)
  return exitCode.failed
}

/** Prints human-readable text to stderr. Escapes control characters, because the text may contain user-defined names. */
export function printMessage(message: string): void {
  writeMessage(withoutSecrets(message))
}

function writeMessage(text: string): void {
  process.stderr.write(`${text.split('\n').map(visible).join('\n')}\n`)
}

/** Reports a parser error, such as `error: unknown option '--jsn'`. A second line may suggest a correction. */
function reportUsageError(error: CommanderError, asJson: boolean): number {
  if (error.exitCode === 0) return exitCode.done
  if (error.code !== 'commander.help') {
    const [, message = error.message, suggestion] = /^(?:error: )?(.*?)(?:\n\((.*)\))?$/s.exec(error.message) ?? []
    printError({ code: 'USAGE', message, hint: suggestion ?? 'Add --help to see the commands and options.' }, asJson)
  }
  // Commander uses exit code 1, unless a command has set a different code.
  return error.exitCode === 1 ? exitCode.usage : error.exitCode
}

function printError(
  failure: { code: string; message: string; hint?: string | undefined; retryable?: boolean },
  asJson: boolean,
): void {
  // Each text is masked before it becomes JSON. Otherwise, a mask could replace the end of a string.
  const { message, hint } = failure
  const error = { ...failure, message: withoutSecrets(message), hint: hint && withoutSecrets(hint) }
  if (asJson) writeMessage(JSON.stringify({ error }))
  else writeMessage(`holdfast: ${error.message}${error.hint ? `\n${error.hint}` : ''}`)
}

/**
 * Password of a URL. The password can contain @, because the host starts after the last @ before the path. Does not match the word
 * `password`, which Holdfast's own examples contain.
 */
const urlPassword = /(\w+:\/\/[^\s:@/]*):(?!password@[^\s@]*(?:\s|$))[^\s@]*@(?:[^\s@/?#]*@)*/g

/** Password in a connection string or in the parameters of a URL. The error may show a quoted password with escaped quotes. */
const passwordSetting = /(password\s*=\s*)(?:'(?:[^'\\\n]|\\.)*'?|\\?"[^"\n]+"|[^\s&'"]+)/gi

/** Hides passwords in error messages, because an error may show a mistyped argument. */
function withoutSecrets(text: string): string {
  return text.replace(urlPassword, '$1:***@').replace(passwordSetting, '$1***')
}
