// A process that acquires one name and keeps it. It reports the fence, and after SIGUSR2 whether it still holds the name.
import { Holdfast } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

const { url, expiryMs, name }: { url: string; expiryMs: number; name: string } = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, log: false }))
const lock = await holdfast.locks.acquire(name)
process.send?.({ fence: lock.fence })
// A signal that arrives while the process is frozen is handled in the first turn of its event loop.
process.on('SIGUSR2', () => process.send?.({ held: lock.held, at: process.hrtime.bigint().toString() }))
