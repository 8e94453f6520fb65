// Writes docs/reference/errors.md: one section for each error code. The class, the message, the hint and `retryable` come from the classes
// themselves, and a section's first paragraph is the class's doc comment. The rest comes from error-entries.ts.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import * as embedded from '../../dist/embedded/index.js'
import * as main from '../../dist/index.js'
import * as testing from '../../dist/testing/index.js'
import { pageOf, readComment } from './api.ts'
import { type ErrorEntry, errorEntries } from './error-entries.ts'

const source = fileURLToPath(new URL('../../src', import.meta.url))

interface ErrorClass {
  /** Folder of the module in `src`. */
  room: string
  comment: string
}

/** Sections of the page, with the modules whose errors they contain. */
const groups: readonly [title: string, rooms: readonly string[]][] = [
  ['All calls', ['base']],
  ['Database', ['postgres']],
  ['Locks', ['locks']],
  ['Leases', ['leases']],
  ['Elections', ['elections']],
  ['Limits', ['limits']],
  ['Once', ['once']],
  ['Shares', ['shares']],
  ['Schedules', ['schedules']],
  ['Jobs', ['jobs']],
  ['Command line and dashboard', ['acts', 'cli', 'dashboard']],
  ['Embedded server, demo and test kit', ['embedded', 'demo', 'testing']],
]

/** Entry points that export error classes. */
const entryPoints: readonly [name: string, exports: object][] = [
  ['holdfast', main],
  ['holdfast/embedded', embedded],
  ['holdfast/testing', testing],
]

const classes = readClasses()

/** Returns the page's text. */
export function errors() {
  const codes = Object.keys(errorEntries) as (keyof typeof errorEntries)[]
  const sections = groups.flatMap(([title, rooms]) => {
    const those = codes.filter((code) => rooms.includes(roomOf(errorEntries[code])))
    return ['', `## ${title}`, ...those.flatMap((code) => section(code, errorEntries[code]))]
  })
  return `${[
    '# Error codes',
    '',
    '<!-- Written by npm run reference from the error classes and scripts/reference/error-entries.ts. -->',
    '',
    'Each error that Holdfast throws is a `HoldfastError` with a `code`, a `message`, the field `retryable`, and usually a `hint` about how to fix',
    'the problem. The codes are stable. Compare the `code` or use `instanceof`, but do not compare messages. If `retryable` is true, the same',
    'call may succeed later without changes. `UsageError` is the class of all programming errors.',
    '',
    '```ts',
    "import { HoldfastError, LockTimeoutError } from 'holdfast'",
    '',
    'try {',
    "  await holdfast.locks.with('nightly-report', { wait: '5s' }, writeReport)",
    '} catch (error) {',
    '  if (error instanceof LockTimeoutError) return // Another process writes the report.',
    '  if (error instanceof HoldfastError) console.error(error.code, error.message, error.hint)',
    '  throw error',
    '}',
    '```',
    '',
    'Not every error is thrown. If a lock, a lease, a job or another handle is lost or must be released, its `signal` aborts, and the error is',
    "the signal's `reason`. A command prints the error to stderr, with `--json` as `{ code, message, hint, retryable }`.",
    '',
    `All codes: ${codes.map((code) => `[${code}](#${anchor(code)})`).join(', ')}.`,
    ...sections,
  ].join('\n')}\n`
}

const anchor = (code: string) => code.toLowerCase()

/**
 * Returns the module that contains the first example's class. An error with several classes is in the first class's
 * group.
 */
const roomOf = ({ examples: [first] }: ErrorEntry) => classOf(first.name).room

function section(code: string, entry: ErrorEntry) {
  const { examples, when, thrownBy, remedy } = entry
  const names = [...new Set(examples.map(({ name }) => name))]
  for (const example of examples) {
    if (example.code !== code) throw new Error(`The example of ${code} has the code ${example.code}`)
  }
  return [
    '',
    `### ${code}`,
    '',
    ...(when ? [when] : names.map((name) => classOf(name).comment)),
    '',
    `- **${names.length === 1 ? 'Class' : 'Classes'}**: ${names.map(classText).join('; ')}.`,
    `- **Retryable**: ${retryableText(entry)}.`,
    `- **Thrown by**: ${thrownBy}.`,
    ...examples.flatMap(({ message, hint }) => [
      `- **Message**, for example: \`${message.replaceAll(/\s*\n\s*/g, ' ')}\`.`,
      `- **Hint**: ${hint ?? 'none.'}`,
    ]),
    `- **What to do**: ${remedy}`,
  ]
}

function retryableText({ retryable, examples }: ErrorEntry) {
  if (retryable) return retryable
  const values = new Set(examples.map((example) => (example.retryable ? 'yes' : 'no')))
  if (values.size > 1) throw new Error(`${examples[0].code} needs a description of when it is retryable`)
  return [...values].join('')
}

/** Returns a class's name with its entry point, and a link to its declaration. */
function classText(name: string) {
  const [entryPoint] = entryPoints.find(([, exports]) => name in exports) ?? []
  if (!entryPoint) return `\`${name}\` (not exported, compare the \`code\`)`
  const page = entryPoint === 'holdfast' ? pageOf(classOf(name).room) : entryPoint.slice('holdfast/'.length)
  return `[\`${name}\`](api/${page}.md#${name.toLowerCase()}), exported by \`${entryPoint}\``
}

function classOf(name: string): ErrorClass {
  const found = classes.get(name)
  if (!found) throw new Error(`src contains no class ${name} with a doc comment`)
  return found
}

/** Returns all error classes that have a doc comment. */
function readClasses() {
  const found = new Map<string, ErrorClass>()
  for (const file of readdirSync(source, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue
    const text = readFileSync(`${source}/${file}`, 'utf8')
    for (const [, comment, name] of text.matchAll(
      /(\/\*\*(?:(?!\*\/)[\s\S])*\*\/)\n(?:export )?class (\w+Error) extends /g,
    )) {
      const prose = readComment(comment).prose.replaceAll('\n', ' ')
      found.set(name!, { room: file.split('/')[0]!, comment: prose })
    }
  }
  return found
}
