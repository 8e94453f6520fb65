// A process that takes part in a division, and tells what it owns from when to when.
import { Holdfast } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Given {
  url: string
  expiryMs: number
  anchor?: 'required' | 'none'
  resources: string[]
}

const { url, expiryMs, anchor, resources }: Given = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor }))
const now = () => process.hrtime.bigint().toString()
holdfast.shares.assign('x', resources, async (resource, { signal, fence }) => {
  process.send?.({ event: 'begins', resource, fence, at: now() })
  await new Promise((resolve) => signal.addEventListener('abort', resolve))
  process.send?.({ event: 'ends', resource, fence, at: now(), code: signal.reason.code })
})
process.on('message', async () => {
  await holdfast.close()
  process.disconnect()
})
process.send?.({ event: 'ready' })
