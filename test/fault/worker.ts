// A process that takes part in rounds on orders over IPC. It reports the start and the end of its work on each resource.
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, type OwnedResource } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  expiryMs: number
  anchor?: 'required' | 'none'
}

interface Round {
  round: string
  resources: string[]
  minMs: number
  workMs: number
  stay?: boolean
}

const { url, expiryMs, anchor }: Options = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor, log: false }))
const now = () => process.hrtime.bigint().toString()
process.on('message', async ({ round, resources, minMs, workMs, stay: waitForOthers }: Round) => {
  const work = async (resource: string, { fence }: OwnedResource) => {
    process.send?.({ event: 'starts', round, resource, fence, at: now() })
    await sleep(minMs + Math.random() * (workMs - minMs))
    process.send?.({ event: 'ends', round, resource, fence, at: now() })
  }
  const outcome = await holdfast.shares
    .each('x', resources, { round, waitForOthers }, work)
    .catch((error) => ({ error: error.message }))
  process.send?.({ event: 'over', round, at: now(), ...outcome })
})
process.send?.({ event: 'ready' })
