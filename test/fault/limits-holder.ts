// A process that acquires permits and keeps them. It reports a fence, and after SIGUSR2 whether it still holds the permit.
import { Holdfast } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  expiryMs: number
  anchor?: 'required' | 'none'
  names: string[]
  max: number
}

const { url, expiryMs, anchor, names, max }: Options = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor, log: false }))
const permits = await Promise.all(names.map((name) => holdfast.limits.acquire(name, { max, wait: '30s' })))
process.send?.({ fence: permits[0]!.fence })
// A signal that arrives while the process is frozen is handled in the first turn of its event loop.
process.on('SIGUSR2', () => process.send?.({ held: permits[0]!.held, code: permits[0]!.signal.reason?.code }))
