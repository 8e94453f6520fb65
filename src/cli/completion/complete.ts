import type { Argument, Command } from 'commander'
import { pause } from '../../base/index.js'
import { isNamed } from '../command.js'
import { Exit, exitCode } from '../failure.js'
import { EnvOption } from '../options.js'
import { write } from '../output.js'
import { shells } from './scripts.js'

/** A word that can complete the input, with its description. */
interface Candidate {
  readonly word: string
  readonly meaning: string
}

/** Kind of word that is expected next: one of the given words, a name from `GROUP ls`'s output, or a file. */
type ExpectedWord =
  | { readonly kind: 'words'; readonly candidates: readonly Candidate[] }
  | { readonly kind: 'names'; readonly noun: string }
  | { readonly kind: 'file' }

/** Maximum duration of a completion. */
const timeoutMs = 3_000

const nothing: ExpectedWord = { kind: 'words', candidates: [] }

/**
 * Prints the candidates for the last word. Each line contains a word, a tab and the word's description. Exits with
 * status 3 if a file name is expected, so that the shell completes the file name. All words come from the definitions
 * of the commands.
 */
export async function printCandidates(program: Command, words: readonly string[]): Promise<void> {
  const typed = words.at(-1) ?? ''
  const { expected, prefix, given } = contextOf(program, words)
  if (expected.kind === 'file') throw new Exit(exitCode.conditionNotMet)
  const candidates = expected.kind === 'names' ? await listedNames(program, expected.noun, given) : expected.candidates
  const fitting = candidates.filter(({ word }) => `${prefix}${word}`.startsWith(typed))
  write(fitting.map(({ word, meaning }) => `${prefix}${word}\t${meaning}`))
}

interface CompletionContext {
  readonly expected: ExpectedWord
  /** Part of the word before the option's value, such as `--state=`. */
  readonly prefix: string
  /** Program options that the input already contains, such as the database and the namespace. */
  readonly given: readonly string[]
}

function contextOf(program: Command, words: readonly string[]): CompletionContext {
  const typed = words.at(-1) ?? ''
  const given: string[] = []
  let command = program
  let option: EnvOption | undefined
  let args = 0
  for (const word of words.slice(0, -1)) {
    if (word === '--') return { expected: { kind: 'file' }, prefix: '', given }
    const isValue = option !== undefined
    if (isValue && program.options.includes(option!)) given.push(option!.long!, word)
    option = undefined
    if (isValue) continue
    if (word.startsWith('-')) option = word.includes('=') ? undefined : takesValue(command, word)
    else if (command.commands.length > 0) {
      const next = command.commands.find((inner) => isNamed(inner, word))
      // `holdfast help lock` offers the same completions as `holdfast lock`.
      if (!next) return { expected: nothing, prefix: '', given }
      if (next.name() !== 'help') command = next
    } else args++
  }
  if (option) return { expected: expectedValue(option), prefix: '', given }
  const [, name, value] = /^(--[^=]+)=(.*)$/s.exec(typed) ?? []
  const assigned = name === undefined ? undefined : takesValue(command, name)
  if (value !== undefined) return { expected: assigned ? expectedValue(assigned) : nothing, prefix: `${name}=`, given }
  if (typed.startsWith('-')) return { expected: optionsOf(command, words.slice(0, -1)), prefix: '', given }
  if (command.commands.length > 0) return { expected: verbsOf(command), prefix: '', given }
  return { expected: expectedArgument(command, args), prefix: '', given }
}

function allOptions(command: Command): EnvOption[] {
  const inherited = command.parent ? allOptions(command.parent) : []
  return [...command.options.filter((option) => option instanceof EnvOption), ...inherited]
}

function takesValue(command: Command, word: string): EnvOption | undefined {
  return allOptions(command).find((option) => option.long === word && option.required)
}

function optionsOf(command: Command, words: readonly string[]): ExpectedWord {
  const candidates = allOptions(command)
    .filter(({ long, parseArg }) => parseArg !== undefined || !words.includes(long!))
    .map(({ long, description }) => ({ word: long!, meaning: description }))
  return { kind: 'words', candidates: [...candidates, { word: '--help', meaning: 'print this help' }] }
}

function verbsOf(command: Command): ExpectedWord {
  const visible = command.createHelp().visibleCommands(command)
  return {
    kind: 'words',
    candidates: visible.map((verb) => ({ word: verb.name(), meaning: verb.summary() || verb.description() })),
  }
}

function expectedValue(option: EnvOption): ExpectedWord {
  if (option.values.length > 0) return wordsFor(option.values)
  if (/<(path|file)>/.test(option.flags)) return { kind: 'file' }
  return option.attributeName() === 'queue' ? { kind: 'names', noun: 'queue' } : nothing
}

function expectedArgument(command: Command, at: number): ExpectedWord {
  const all: readonly Argument[] = command.registeredArguments
  const argument = all[at] ?? (all.at(-1)?.variadic ? all.at(-1) : undefined)
  const name = argument?.name()
  const noun = command.parent
  if (name === 'file') return { kind: 'file' }
  if (name === 'queue') return { kind: 'names', noun: 'queue' }
  if (name === 'shell') return wordsFor(shells)
  const isListed = noun?.commands.some((verb) => verb.name() === 'ls')
  return isListed && (name === 'name' || name === 'id') ? { kind: 'names', noun: noun!.name() } : nothing
}

function wordsFor(values: readonly string[]): ExpectedWord {
  return { kind: 'words', candidates: values.map((word) => ({ word, meaning: '' })) }
}

/** Returns the first column of `holdfast GROUP ls`'s output. Returns no names if the database is unreachable. */
async function listedNames(program: Command, noun: string, given: readonly string[]): Promise<Candidate[]> {
  const listed = await capturedOutput(() => program.parseAsync([noun, 'ls', ...given], { from: 'user' }))
  const names = listed.split('\n').map((line) => line.split('\t')[0]!)
  return [...new Set(names)].filter((name) => name !== '').map((word) => ({ word, meaning: '' }))
}

/** Captures stdout while `work` runs. `work` runs in this process, because a second process would double the delay. */
async function capturedOutput(work: () => Promise<unknown>): Promise<string> {
  const { stdout, stderr } = process
  const writes = [stdout.write, stderr.write] as const
  let printed = ''
  stdout.write = (text: string | Uint8Array) => {
    printed += text
    return true
  }
  stderr.write = () => true
  try {
    // If the database is unreachable, there are no candidates.
    await Promise.race([work(), pause(timeoutMs)]).catch(() => {})
  } finally {
    stdout.write = writes[0]
    stderr.write = writes[1]
  }
  return printed
}
