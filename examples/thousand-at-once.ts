// Four processes acquire one lock 250 times each, all at the same time. The holder adds one to a number in a file: it reads the number, waits a moment,
// and writes the number. If two processes held the lock at the same time, the sum would be too small.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Holdfast } from 'holdfast'
import { withDatabase } from './database.ts'

const [url, file] = process.argv.slice(2)
if (url && file) await add(url, file)
else await withDatabase(manage)

async function add(url: string, file: string) {
  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  const one = () =>
    holdfast.locks.with('the-number', async () => {
      const number = Number(await readFile(file, 'utf8'))
      await new Promise(setImmediate)
      await writeFile(file, String(number + 1))
    })
  await Promise.all(Array.from({ length: 250 }, one))
  await holdfast.close()
}

async function manage(url: string) {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-example-'))
  const file = join(directory, 'number')
  await writeFile(file, '0')
  const workers = Array.from({ length: 4 }, () => fork(fileURLToPath(import.meta.url), [url, file]))
  await Promise.all(workers.map((worker) => once(worker, 'exit')))
  console.log(`4 processes added ${await readFile(file, 'utf8')} times`)
  await rm(directory, { recursive: true })
}

// prints:
// 4 processes added 1000 times
