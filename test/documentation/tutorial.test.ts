// Runs the program of the README, and each step of the tutorial as printed, in an empty folder that contains only the package.
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startProgram } from '../cli/program.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl } from '../setup/instances.js'
import { root } from './lines.js'

interface Block {
  /** Name of the file as which the reader saves the block. */
  readonly file: string | undefined
  readonly language: string
  readonly text: string
}

/** Returns the code blocks of a page in their order. */
function blocksOf(page: string): Block[] {
  const text = readFileSync(join(root, page), 'utf8')
  const blocks = text.matchAll(/(?:[Ss]ave this \w+ as `([\w.]+)`(?:(?!^```)[\s\S])*)?^```(\w*)\n([\s\S]*?)^```$/gm)
  return [...blocks].map(([, file, language, text]) => ({ file, language: language!, text: text! }))
}

/** Creates a folder with the package, and a database. */
async function newProject() {
  const database = await databaseUrl()
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-tutorial-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(root, join(folder, 'node_modules/holdfast'))
  symlinkSync(join(root, 'node_modules/pg'), join(folder, 'node_modules/pg'))
  mkdirSync(join(folder, 'bin'))
  writeFileSync(join(folder, 'bin/npx'), `#!/bin/sh\nshift\nexec ${process.execPath} ${root}dist/cli/bin.js "$@"\n`)
  chmodSync(join(folder, 'bin/npx'), 0o755)
  const env = { DATABASE_URL: database, PATH: `${folder}/bin:${process.env.PATH}`, PORT: '0', HOLDFAST_YES: '1' }
  const save = (name: string, text: string) => writeFileSync(join(folder, name), text)
  const start = (...line: string[]) => startProgram(process.execPath, line, env, folder, 60_000)
  const shell = (text: string) => startProgram('bash', ['-c', text], env, folder, 60_000)
  return { database, save, start, shell }
}

test('the program of the README enqueues jobs, runs jobs and ends after SIGTERM', { timeout: 60_000 }, async () => {
  const files = blocksOf('README.md').filter(({ file }) => file)
  expect(files.map(({ file }) => file)).toEqual(['shop.mjs'])
  const { save, start } = await newProject()
  save('shop.mjs', files[0]!.text)
  const running = [start('shop.mjs'), start('shop.mjs')]
  await until(
    'an invoice is sent',
    () => running.some(({ stdout }) => /sends the invoice for order 1/.test(stdout)),
    30_000,
  )
  for (const one of running) one.process.kill('SIGTERM')
  for (const { ended } of running) expect(await ended).toMatchObject({ status: 0, stderr: '' })
})

/** Returns a pattern for a printed line, in which a duration can differ. */
function patternOf(line: string): RegExp {
  return new RegExp(`^${line.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/\d+ms/, '\\d+ms')}$`, 'm')
}

/** Steps of the tutorial that need the network, or that have their own tests. */
const skipped = /^(?:mkdir|npm|export|npx holdfast (?:dev|dashboard|top|doctor)\b)/

test('each step of the tutorial prints what the page shows', { timeout: 90_000 }, async () => {
  const { database, save, start, shell } = await newProject()
  let port = ''
  let workers: ReturnType<typeof start>[] = []
  const outputs: (() => string)[] = []
  let shown = ''
  const output = () => outputs.map((one) => one()).join('')

  async function startWorkers(): Promise<void> {
    workers = [start('worker.mjs'), start('worker.mjs')]
    for (const worker of workers) outputs.push(() => worker.stdout + worker.stderr)
    const members = `select count(distinct instance)::integer as count from holdfast.schedule_member`
    await until(
      'both workers take part in the schedule',
      async () => (await sql<{ count: number }>(database, members))[0]!.count === 2,
    )
  }

  async function stopWorkers(): Promise<void> {
    for (const worker of workers) worker.process.kill('SIGTERM')
    for (const { ended } of workers) await ended
  }

  async function execute(line: string): Promise<void> {
    if (line === 'node server.mjs') {
      const server = start('server.mjs')
      port = (await server.says(/listening on port (\d+)/))[1]!
      return
    }
    if (line === 'node worker.mjs') return startWorkers()
    if (line === 'node --test shop.test.mjs') await stopWorkers()
    if (line.includes('"pay_3"')) workers.pop()!.process.kill('SIGKILL')
    const { status, stdout, stderr } = await shell(line.replaceAll('localhost:3000', `localhost:${port}`)).ended
    expect(status, `${line}\n${stderr}`).toBe(0)
    shown += stdout
  }

  for (const { file, language, text } of blocksOf('docs/start/tutorial.md')) {
    if (file) {
      save(file, text)
      if (workers.length > 0 && file === 'jobs.mjs') await stopWorkers().then(startWorkers)
    } else if (language === 'sh') {
      shown = ''
      for (const line of text.trim().split('\n')) if (!skipped.test(line)) await execute(line)
    } else if (language === 'json') {
      expect(shown).toBe(text)
    } else {
      for (const line of text.trim().split('\n')) {
        const pattern = patternOf(line)
        await until(`"${line}" is printed`, () => pattern.test(shown + output()), 20_000)
      }
    }
  }
  expect(await sql(database, 'select count(invoiced_at)::integer as count from orders')).toEqual([{ count: 3 }])
})
