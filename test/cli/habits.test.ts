// Tests the rules that every command follows. A new command needs a line in the table.
import { fileURLToPath } from 'node:url'
import { type Command, CommanderError } from 'commander'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { examplesOf } from '../../src/cli/command.js'
import { EnvOption } from '../../src/cli/options.js'
import { makeProgram } from '../../src/cli/program.js'
import { Holdfast } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { typescript } from '../setup/typescript.js'
import { verbs } from './commands.js'
import { type ExitResult, run, runAlone, startProgram } from './program.js'
import { fits, fitsLine, hasRows, schemaOf } from './schemas.js'

/** Arguments for each command in an almost empty database, and the expected exit code. */
const table: Record<string, { args?: string[]; status: number; needsDatabase?: false }> = {
  'lock run': { args: ['habit', '--', 'true'], status: 0 },
  'lock ls': { status: 0 },
  'lock show': { args: ['free'], status: 0 },
  'lock release': { args: ['free'], status: 3 },
  'lock break': { args: ['free', '--yes'], status: 3 },
  'lease ls': { status: 0 },
  'lease show': { args: ['free'], status: 0 },
  'lease expire': { args: ['free', '--yes'], status: 3 },
  work: { args: ['package.json'], status: 1, needsDatabase: false },
  'job ls': { status: 0 },
  'job stats': { status: 0 },
  'job show': { args: ['999999'], status: 3 },
  'job logs': { args: ['999999'], status: 3 },
  'job add': { args: ['mail', 'send'], status: 0 },
  'job watch': { args: ['999999'], status: 3 },
  'job update': { args: ['999999', '--priority', '1'], status: 3 },
  'job export': { status: 0 },
  'job import': { args: ['pg-boss', '--dry-run'], status: 1 },
  'job retry': { args: ['999999'], status: 3 },
  'job cancel': { args: ['999999'], status: 3 },
  'job discard': { args: ['999999'], status: 3 },
  'job send': { args: ['999999', 'approved'], status: 3 },
  'queue ls': { status: 0 },
  'queue pause': { args: ['mail'], status: 0 },
  'queue resume': { args: ['never'], status: 3 },
  'schedule ls': { status: 0 },
  'schedule show': { args: ['never'], status: 3 },
  'schedule set': { args: ['stored', 'mail', 'send', '--every', '1h'], status: 0 },
  'schedule rm': { args: ['never'], status: 3 },
  'schedule run': { args: ['never'], status: 3 },
  'schedule pause': { args: ['never'], status: 3 },
  'schedule resume': { args: ['never'], status: 3 },
  'schedule override': { args: ['never', '--clear'], status: 3 },
  'schedule next': { args: ['@daily'], status: 0, needsDatabase: false },
  'instance ls': { status: 0 },
  'instance show': { args: ['never'], status: 3 },
  'instance drain': { args: ['never'], status: 3 },
  'limit ls': { status: 0 },
  'limit show': { args: ['free'], status: 0 },
  'limit reset': { args: ['free', '--yes'], status: 3 },
  'delivery ls': { status: 0 },
  'delivery show': { args: ['never'], status: 3 },
  'delivery forget': { args: ['never', '--yes'], status: 3 },
  changes: { status: 0 },
  'audit ls': { status: 0 },
  graph: { status: 0 },
  top: { args: ['--once'], status: 0 },
  migrate: { status: 0 },
  doctor: { status: 0 },
  bench: { args: ['--seconds', '0.1'], status: 0 },
  completion: { args: ['bash'], status: 0, needsDatabase: false },
}
/** Commands that run until they are interrupted. They have their own tests. */
const endless = ['dashboard', 'demo', 'dev', 'mcp']

/** The tests start about 60 processes, which takes seconds on an idle machine and longer on a busy one. */
const patient = { timeout: 120_000 }

const nowhere = 'postgres://app:s3cret@127.0.0.1:1/app'

let database: FreshDatabase
let holdfast: Holdfast
beforeAll(async () => {
  database = await freshDatabase()
  holdfast = await Holdfast.open({ url: database.url })
  await holdfast.locks.acquire('one')
  await holdfast.locks.acquire('two', { mode: 'shared' })
})
afterAll(async () => {
  await holdfast.close()
  await database.drop()
})

const named = verbs.map(({ words, command }) => ({ name: words.join(' '), words, command }))

test('every command has a line in the table of this test', () => {
  expect([...Object.keys(table), ...endless].sort()).toEqual(named.map(({ name }) => name).sort())
})

/** Runs the checks, four at a time. */
async function ofAll(cases: readonly string[], check: (name: string) => Promise<void>): Promise<void> {
  const left = [...cases]
  const next = async (): Promise<void> => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) await check(name)
  }
  await Promise.all([next(), next(), next(), next()])
}

function runCommand(name: string, env: NodeJS.ProcessEnv, ...options: string[]): Promise<ExitResult> {
  const { args = [] } = table[name]!
  return run([...name.split(' '), ...options, ...args], env)
}

/** Commands whose stdout comes from other programs or is not JSON. */
const printOthers = ['lock run', 'work', 'completion']

test(
  'every command prints what its schema describes with --json and --jsonl, and exits with the expected code',
  patient,
  async () => {
    const env = { DATABASE_URL: database.url }
    const failures: unknown[] = []
    await ofAll(Object.keys(table), async (name) => {
      const document = await runCommand(name, env, '--json')
      // A benchmark takes seconds, so it runs only once.
      const lines = name === 'bench' ? undefined : await runCommand(name, env, '--jsonl')
      for (const { status, stdout, stderr } of [document, lines ?? document]) {
        const hasColour = `${stdout}${stderr}`.includes('\x1b')
        if (status !== table[name]!.status || hasColour) failures.push({ name, status, stdout, stderr })
      }
      if (printOthers.includes(name)) return
      const schema = schemaOf(name.split(' '))
      if (document.stdout !== '') fits(schema, JSON.parse(document.stdout))
      if (!lines) return
      const documents = lines.stdout.split('\n').slice(0, -1)
      for (const line of documents) fitsLine(schema, JSON.parse(line))
      // A command without rows prints the same document, or none, in both formats.
      if (!hasRows(schema))
        expect({ name, documents: documents.length }).toEqual({ name, documents: document.stdout === '' ? 0 : 1 })
    })
    expect(failures).toEqual([])
  },
)

test(
  'every command exits with 4 if the database is unreachable, and does not print the password',
  patient,
  async () => {
    const cases = Object.keys(table).filter((name) => table[name]!.needsDatabase !== false)
    const failures: unknown[] = []
    await ofAll(cases, async (name) => {
      const { status, stdout, stderr } = await runCommand(name, { DATABASE_URL: nowhere })
      const isReported = stderr.startsWith('holdfast: The database cannot be reached') && !stderr.includes('s3cret')
      // `lock run` exits with 125, because the command that it runs uses the low codes.
      const code = name === 'lock run' ? 125 : 4
      if (status !== code || stdout !== '' || !isReported) failures.push({ name, status, stdout, stderr })
    })
    expect(failures).toEqual([])
  },
)

test('every ls command prints tab-separated fields if stdout is piped', patient, async () => {
  const lists = named.filter(({ name }) => name.endsWith(' ls'))
  await ofAll(
    lists.map(({ name }) => name),
    async (name) => {
      const { stdout } = await runAlone(name.split(' '), { DATABASE_URL: database.url })
      const lines = stdout === '' ? [] : stdout.trimEnd().split('\n')
      const widths = new Set(lines.map((line) => line.split('\t').length))
      if (lines.length > 0) expect({ name, columns: widths.size }).toEqual({ name, columns: 1 })
      if (name === 'lock ls') expect(lines.map((line) => line.split('\t')[0])).toEqual(['one', 'two'])
      expect(stdout).not.toContain('\x1b')
    },
  )
})

describe.each(named)('$name', ({ words, command }) => {
  test(`${words.join(' ')} has examples of itself, and its help shows the variable of each option`, () => {
    const examples = examplesOf(command)
    expect(examples.length).toBeGreaterThan(0)
    for (const example of examples) expect(example).toContain(`holdfast ${words.join(' ')}`)
    const help = command.helpInformation()
    for (const option of command.options) {
      expect(option).toBeInstanceOf(EnvOption)
      expect(help).toContain(`[${(option as EnvOption).variable}]`)
      for (const value of (option as EnvOption).values) expect(option.description).toContain(value)
    }
    expect(`${command.summary()}${command.description()}`).not.toBe('')
  })

  test(`${words.join(' ')} refuses an unknown option and suggests a similar one`, async () => {
    const program = makeProgram()
    const complaint = await program.parseAsync([...words, '--jsno'], { from: 'user' }).catch((error) => error)
    expect(complaint).toBeInstanceOf(CommanderError)
    expect(complaint.message).toBe("error: unknown option '--jsno'\n(Did you mean --json?)")
    expect(complaint.exitCode).toBe(words.join(' ') === 'lock run' ? 125 : 1)
  })
})

const choices = named.flatMap(({ words, command }) =>
  command.options.flatMap((option) => {
    const { long, values } = option as EnvOption
    return values.length > 0 ? [{ words, long: long!, values }] : []
  }),
)

test('every option with a fixed set of values refuses other values and lists the valid ones', patient, async () => {
  await ofAll(
    choices.map((_, at) => String(at)),
    async (at) => {
      const { words, long, values } = choices[Number(at)]!
      const slip = `${values[0]!.slice(1)}${values[0]![0]}`
      const { status, stderr } = await run([...words, long, slip, '--url', nowhere])
      const listed = values.map((value) => `"${value}"`).join(' or ')
      expect(stderr).toContain(`Expected ${long} to be ${listed}, got "${slip}"`)
      expect(status).toBe(2)
    },
  )
})

/** Replaces every action with a function that does nothing, so that words are only parsed. */
function inert(command: Command): Command {
  for (const inner of command.commands) inert(inner)
  return command.commands.length > 0 ? command : command.action(() => {})
}

/** Returns the words of a line as a shell splits them, up to a pipe or a redirection. */
function wordsOf(line: string): string[] {
  const ownWords = /(?:^|\| |<\()holdfast (.*?)(?: \| | >>? |\)$|$)/.exec(line)![1]!
  return [...ownWords.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, bare]) => single ?? double ?? bare!,
  )
}

const lines = [...named.map(({ command }) => command), makeProgram(), ...makeProgram().commands].flatMap(examplesOf)

test.each([...new Set(lines)])('the example is a valid command line: %s', async (line) => {
  // `lock run` looks for the words after -- in process.argv.
  const argv = process.argv
  process.argv = [...argv, ...wordsOf(line)]
  try {
    await inert(makeProgram()).parseAsync(wordsOf(line), { from: 'user' })
  } finally {
    process.argv = argv
  }
})

test('the generated reference matches the definitions of the commands', { timeout: 90_000 }, async () => {
  const script = fileURLToPath(new URL('../../scripts/reference/index.ts', import.meta.url))
  // The check compiles the whole project.
  const checking = startProgram(process.execPath, [...typescript, script, '--check'], {}, undefined, 80_000)
  expect(await checking.ended).toEqual({ status: 0, stdout: '', stderr: '' })
})
