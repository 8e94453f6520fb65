// A process that takes permits and keeps them. It says when it has them, and what its first look tells after it was thawed.
import { Holdfast } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Given {
  url: string
  expiryMs: number
  anchor?: 'required' | 'none'
  names: string[]
  max: number
}

const { url, expiryMs, anchor, names, max }: Given = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor }))
const permits = await Promise.all(names.map((name) => holdfast.limits.acquire(name, { max, wait: '30s' })))
process.send?.({ fence: permits[0]!.fence })
// Signals that arrive while the process is stopped are seen by the first turn of its event loop.
process.on('SIGUSR2', () => process.send?.({ held: permits[0]!.held, code: permits[0]!.signal.reason?.code }))
