// The habits that every command has, whatever it does. A new command needs a line in the table.
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
import { type Ended, run, runAlone, startProgram } from './program.js'
import { fits, fitsLine, hasRows, schemaOf } from './schemas.js'

/** What to say to a command in a database where hardly anything is, and the exit code of that. */
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
  'job show': { args: ['999999'], status: 3 },
  'job add': { args: ['mail', 'send'], status: 0 },
  'job import': { args: ['pg-boss', '--dry-run'], status: 1 },
  'job retry': { args: ['999999'], status: 3 },
  'job cancel': { args: ['999999'], status: 3 },
  'queue ls': { status: 0 },
  'queue pause': { args: ['mail'], status: 0 },
  'queue resume': { args: ['never'], status: 3 },
  'queue redrive': { args: ['never', '--yes'], status: 3 },
  'schedule ls': { status: 0 },
  'schedule show': { args: ['never'], status: 3 },
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
  graph: { status: 0 },
  top: { args: ['--once'], status: 0 },
  migrate: { status: 0 },
  doctor: { status: 0 },
  bench: { args: ['--seconds', '0.1'], status: 0 },
  completion: { args: ['bash'], status: 0, needsDatabase: false },
}
/** They run until they are interrupted, and have tests of their own. */
const endless = ['dashboard', 'demo', 'dev']

/** Some sixty processes: seconds where nothing else runs, more where much does. */
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

test('every command stands in the table, and has its habits tested', () => {
  expect([...Object.keys(table), ...endless].sort()).toEqual(named.map(({ name }) => name).sort())
})

/** A few at a time. */
async function ofAll(cases: readonly string[], check: (name: string) => Promise<void>): Promise<void> {
  const left = [...cases]
  const next = async (): Promise<void> => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) await check(name)
  }
  await Promise.all([next(), next(), next(), next()])
}

function say(name: string, env: NodeJS.ProcessEnv, ...options: string[]): Promise<Ended> {
  const { args = [] } = table[name]!
  return run([...name.split(' '), ...options, ...args], env)
}

/** What these print is no data of ours. */
const printOthers = ['lock run', 'work', 'completion']

test('with --json and --jsonl, each prints what its schema says, and ends with its code', patient, async () => {
  const env = { DATABASE_URL: database.url }
  const failures: unknown[] = []
  await ofAll(Object.keys(table), async (name) => {
    const document = await say(name, env, '--json')
    // To measure takes seconds; its rows go the way of all.
    const lines = name === 'bench' ? undefined : await say(name, env, '--jsonl')
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
    // One document, or none, is the same in either form.
    if (!hasRows(schema))
      expect({ name, documents: documents.length }).toEqual({ name, documents: document.stdout === '' ? 0 : 1 })
  })
  expect(failures).toEqual([])
})

test(
  'without a database each ends with 4, blames the database, and keeps the password to itself',
  patient,
  async () => {
    const cases = Object.keys(table).filter((name) => table[name]!.needsDatabase !== false)
    const failures: unknown[] = []
    await ofAll(cases, async (name) => {
      const { status, stdout, stderr } = await say(name, { DATABASE_URL: nowhere })
      const isTold = stderr.startsWith('holdfast: The database cannot be reached') && !stderr.includes('s3cret')
      // The command that it runs has the codes from 0 up.
      const code = name === 'lock run' ? 125 : 4
      if (status !== code || stdout !== '' || !isTold) failures.push({ name, status, stdout, stderr })
    })
    expect(failures).toEqual([])
  },
)

test('what lists prints fields between tabs where it is piped', patient, async () => {
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
  test('has examples of itself, which its help starts with, and tells the variable of each option', () => {
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

  test('refuses an option that it does not know, and tells which may have been meant', async () => {
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

test('where an option is one of a few words, others are refused, and what was meant is told', patient, async () => {
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

/** A command whose every action does nothing: words are only taken apart. */
function inert(command: Command): Command {
  for (const inner of command.commands) inert(inner)
  return command.commands.length > 0 ? command : command.action(() => {})
}

/** The words of a line as a shell would give them, up to a pipe or a redirection. */
function wordsOf(line: string): string[] {
  const ours = /(?:^|\| |<\()holdfast (.*?)(?: \| | >>? |\)$|$)/.exec(line)![1]!
  return [...ours.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, single, double, bare]) => single ?? double ?? bare!)
}

const lines = [...named.map(({ command }) => command), makeProgram(), ...makeProgram().commands].flatMap(examplesOf)

test.each([...new Set(lines)])('the example makes a command: %s', async (line) => {
  // The words after -- are asked for in those of the process.
  const argv = process.argv
  process.argv = [...argv, ...wordsOf(line)]
  try {
    await inert(makeProgram()).parseAsync(wordsOf(line), { from: 'user' })
  } finally {
    process.argv = argv
  }
})

test('the reference is what the definitions say', { timeout: 90_000 }, async () => {
  const script = fileURLToPath(new URL('../../scripts/reference/index.ts', import.meta.url))
  // It compiles everything.
  const checking = startProgram(process.execPath, [...typescript, script, '--check'], {}, undefined, 80_000)
  expect(await checking.ended).toEqual({ status: 0, stdout: '', stderr: '' })
})
