// A process that takes part in rounds, as it is told to: it says when it begins and when it has done each resource.
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, type OwnedResource } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Given {
  url: string
  expiryMs: number
  anchor?: 'required' | 'none'
}

interface Round {
  round: string
  resources: string[]
  leastMs: number
  workMs: number
  stay?: boolean
}

const { url, expiryMs, anchor }: Given = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor }))
const now = () => process.hrtime.bigint().toString()
process.on('message', async ({ round, resources, leastMs, workMs, stay: waitForOthers }: Round) => {
  const work = async (resource: string, { fence }: OwnedResource) => {
    process.send?.({ event: 'begins', round, resource, fence, at: now() })
    await sleep(leastMs + Math.random() * (workMs - leastMs))
    process.send?.({ event: 'ends', round, resource, fence, at: now() })
  }
  const outcome = await holdfast.shares
    .each('x', resources, work, { round, waitForOthers })
    .catch((error) => ({ error: error.message }))
  process.send?.({ event: 'over', round, at: now(), ...outcome })
})
process.send?.({ event: 'ready' })
