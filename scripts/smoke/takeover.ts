// Two processes: the holder holds a lock and runs a job until it is killed. The successor waits, and takes over both.
// Started by run.ts, in an empty project: takeover.ts holder postgres://…
import assert from 'node:assert/strict'
import { defineJob, Holdfast, implement } from 'holdfast'

const [role, url] = process.argv.slice(2) as ['holder' | 'successor', string]
const holdfast = await Holdfast.open({ url, namespace: 'takeover', name: role, log: false })
const report = defineJob<null, string>('report')

if (role === 'holder') {
  await holdfast.locks.acquire('ledger')
  await holdfast.jobs.enqueue(report, null)
  holdfast.jobs.work([
    implement(report, () => {
      console.log('holding')
      return new Promise<string>(() => {})
    }),
  ])
} else {
  assert.equal(await holdfast.locks.tryAcquire('ledger'), null)
  let ended = (_runBy: string) => {}
  const job = new Promise<string>((resolve) => {
    ended = resolve
  })
  const worker = holdfast.jobs.work([
    implement(report, () => {
      ended(role)
      return role
    }),
  ])
  await worker.ready()
  console.log('waiting')
  const lock = await holdfast.locks.acquire('ledger', { wait: '20s' })
  console.log('lock')
  assert.equal(await job, role)
  console.log('job')
  await lock.release()
  await holdfast.close()
  console.log('closed')
}
