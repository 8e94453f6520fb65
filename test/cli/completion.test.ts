import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Holdfast } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { until } from '../setup/facts.js'
import { bin, run, startProgram } from './program.js'

let database: FreshDatabase
let holdfast: Holdfast
let env: NodeJS.ProcessEnv
const place = mkdtempSync(join(tmpdir(), 'holdfast-completion-'))
beforeAll(async () => {
  database = await freshDatabase()
  symlinkSync(bin, join(place, 'holdfast'))
  env = { DATABASE_URL: database.url, PATH: `${place}:${process.env.PATH}` }
  holdfast = await Holdfast.open({ url: database.url, namespace: 'billing' })
  for (const name of ['invoice:42', 'invoice:7', '$(touch evil)']) await holdfast.locks.acquire(name)
})
afterAll(async () => {
  await holdfast.close()
  await database.drop()
  rmSync(place, { recursive: true, force: true })
})

/**
 * Returns the result of `look` as soon as it contains names from the database. On a busy machine the query may take longer than
 * the completion waits. The result then has no names.
 */
async function withNames(names: readonly string[], look: () => Promise<string[]>): Promise<string[]> {
  return until('names of the database', async () => {
    const found = await look()
    return names.every((name) => found.some((line) => line.includes(name))) && found
  })
}

/** Returns the candidates for the last of these words. */
async function candidates(...words: string[]): Promise<string[]> {
  const { status, stdout } = await run(['__complete', '--', ...words], env)
  expect(status).toBe(0)
  return stdout.split('\n').flatMap((line) => (line === '' ? [] : [line.split('\t')[0]!]))
}

test('completion suggests nouns, verbs, options, values and names, each in its place', async () => {
  const [nouns, verbs, helped, options, states, assigned, names, elsewhere, unknown, given] = await Promise.all([
    candidates('lo'),
    candidates('lock', ''),
    candidates('help', 'lock', 're'),
    candidates('--namespace', 'lock', 'job', 'ls', '--'),
    candidates('job', 'ls', '--state', 'b'),
    candidates('job', 'ls', '--state=d'),
    withNames(['42', '7'], () => candidates('lock', 'show', 'in')),
    candidates('--namespace', 'default', 'lock', 'show', ''),
    candidates('lok', ''),
    candidates('lock', 'ls', '--json', '--js'),
  ])
  expect(nouns).toEqual(['lock'])
  expect(verbs).toEqual(expect.arrayContaining(['run', 'ls', 'show', 'release', 'break']))
  expect(verbs).not.toContain('__complete')
  expect(helped).toEqual(['release'])
  expect(options).toEqual(expect.arrayContaining(['--state', '--schema', '--json', '--help']))
  expect(options).not.toContain('--namespace')
  expect(states).toEqual(['blocked'])
  expect(assigned).toEqual(['--state=done', '--state=discarded'])
  expect(names.sort()).toEqual(['invoice:42', 'invoice:7'])
  expect(elsewhere).toEqual([])
  expect(unknown).toEqual([])
  expect(given).toEqual(['--jsonl'])
})

test('completion leaves files to the shell, and prints nothing without a database', async () => {
  const [file, command, nowhere] = await Promise.all([
    run(['__complete', '--', 'work', ''], env),
    run(['__complete', '--', 'lock', 'run', 'x', '--', ''], env),
    run(['__complete', '--', 'lock', 'show', ''], { DATABASE_URL: 'postgres://app:s3cret@127.0.0.1:1/app' }),
  ])
  expect(file).toEqual({ status: 3, stdout: '', stderr: '' })
  expect(command).toEqual({ status: 3, stdout: '', stderr: '' })
  expect(nowhere).toEqual({ status: 0, stdout: '', stderr: '' })
})

test('completion refuses an unknown shell and suggests a similar one', async () => {
  const { status, stderr } = await run(['completion', 'bsh'])
  expect(stderr).toBe('holdfast: Expected the shell to be "bash" or "zsh" or "fish", got "bsh"\nDid you mean bash?\n')
  expect(status).toBe(2)
})

const has = (shell: string) => spawnSync(shell, ['-c', 'exit 0']).status === 0

async function inShell(shell: string, options: string[], names: readonly string[], script: string): Promise<string[]> {
  return withNames(names, async () => {
    const { stdout, stderr } = await startProgram(shell, [...options, '-c', script], env, place).ended
    expect(stderr).toBe('')
    return stdout.split('\n').filter((line) => line !== '')
  })
}

/** Command that starts each shell without configuration, and the line that installs the completion. */
const shells = {
  bash: ['bash --norc -i', 'source <(holdfast completion bash)'],
  zsh: ['zsh -f -i', 'autoload -Uz compinit; compinit -u -D; source <(holdfast completion zsh)'],
  fish: ['fish --no-config -i', 'holdfast completion fish | source'],
} as const

const tab = '\t'
const clearLine = '\x15'
const longMs = 60_000

const here = Object.keys(shells).filter(
  (shell) => process.platform === 'linux' && has(shell),
) as (keyof typeof shells)[]

test(`Tab in ${here.join(', ')} completes a verb and a name, and the line runs`, {
  timeout: longMs,
}, async () => {
  const absent = Object.keys(shells).filter((shell) => !here.some((one) => one === shell))
  if (absent.length > 0) console.warn(`Tab is not tested in ${absent.join(', ')}: not installed.`)
  await Promise.all(here.map(pressTab))
})

async function pressTab(shell: keyof typeof shells): Promise<void> {
  const [command, setUp] = shells[shell]
  const terminal = { ...env, HOLDFAST_NAMESPACE: 'billing', HOME: place, TERM: 'xterm', SHELL: '/bin/sh', PS1: '$ ' }
  const script = `stty cols 200 rows 24; exec ${command}`
  const keyboard = startProgram('script', ['-qec', script, '/dev/null'], terminal, place, longMs)
  await keyboard.says(/[$#>] /)
  keyboard.type(`${setUp}; echo rea""dy\n`)
  await keyboard.says(/ready/)
  // On a busy machine the query for names may take longer than the completion waits. Then press Tab again.
  await until('the name is completed', async () => {
    const before = keyboard.stdout.length
    const shows = (pattern: RegExp, ms?: number) =>
      until(`${shell} shows ${pattern}`, () => pattern.test(plain(keyboard.stdout.slice(before))), ms)
    keyboard.type(`${clearLine}holdfast lock sh${tab}`)
    await shows(/lock show /)
    keyboard.type(`invoice:4${tab}`)
    return shows(/invoice:42/, 4_000).catch(() => false)
  })
  keyboard.type('\r')
  await keyboard.says(/held, exclusive/)
  keyboard.killGroup()
  await keyboard.ended
}

/** Removes the sequences that move the cursor and set colours. */
function plain(bytes: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with control characters
  return bytes.replace(/\x1b(\[[?\d;]*[A-Za-z]|\][^\x07]*\x07|[=>]|\(B)/g, '')
}

test.runIf(has('bash'))('completion in bash works after a colon and does not evaluate a name', async () => {
  const press = (line: string) => `COMP_LINE=${line}; COMP_POINT=\${#COMP_LINE}; COMP_WORDS=(holdfast); _holdfast
printf '%s\\n' "\${COMPREPLY[@]}" --`
  const answers = await inShell(
    'bash',
    ['--norc'],
    ['42', '7', 'evil'],
    `source <(holdfast completion bash)
${press("'holdfast lock sh'")}
${press("'holdfast lock show invoice:'")}
${press("'holdfast job ls --state=b'")}
${press("'holdfast lock show $'")}
${press("'holdfast lock run x -- tru'")}
ls`,
  )
  const [verb, behindColon, behindEquals, evil, command, files] = answers.join('\n').split(/\n?--\n/)
  expect(verb).toBe('show')
  expect(behindColon!.split('\n').sort()).toEqual(['42', '7'])
  expect(behindEquals).toBe('blocked')
  expect(evil).toBe('\\$\\(touch\\ evil\\)')
  expect(command!.split('\n')).toContain('true')
  expect(files).toBe('holdfast')
})

test.runIf(has('zsh'))('completion in zsh suggests names, verbs and files', async () => {
  const answers = await inShell(
    'zsh',
    ['-f'],
    ['42'],
    `compdef() {}; _describe() { print -rl -- $candidates }; _files() { print files }
source <(holdfast completion zsh)
words=(holdfast lock show invoice:4) CURRENT=4; _holdfast
words=(holdfast lock sh) CURRENT=3; _holdfast
words=(holdfast work '') CURRENT=3; _holdfast`,
  )
  expect(answers).toEqual(['invoice\\:42:', 'show:show who holds a name, and who waits for it', 'files'])
})

test.runIf(has('fish'))('completion in fish suggests verbs, names and files', async () => {
  const answers = await inShell(
    'fish',
    ['--no-config'],
    ['42'],
    `holdfast completion fish | source; complete -C 'holdfast lock sh'; complete -C 'holdfast lock show invoice:4'; complete -C 'holdfast work ./hold'`,
  )
  expect(answers).toEqual(['show\tshow who holds a name, and who waits for it', 'invoice:42', './holdfast'])
})
