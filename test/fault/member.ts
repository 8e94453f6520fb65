// A process that takes part in an assignment of resources. It reports when it starts and stops to own each resource.
import { Holdfast } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  expiryMs: number
  anchor?: 'required' | 'none'
  resources: string[]
}

const { url, expiryMs, anchor, resources }: Options = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor, log: false }))
const now = () => process.hrtime.bigint().toString()
holdfast.shares.assign('x', resources, async (resource, { signal, fence }) => {
  process.send?.({ event: 'starts', resource, fence, at: now() })
  await new Promise((resolve) => signal.addEventListener('abort', resolve))
  process.send?.({ event: 'ends', resource, fence, at: now(), code: signal.reason.code })
})
process.on('message', async () => {
  await holdfast.close()
  process.disconnect()
})
process.send?.({ event: 'ready' })
