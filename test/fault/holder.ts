// A process that takes one name and keeps it. It says when it has it, and what its first look tells after it was thawed.
import { Holdfast } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

const { url, expiryMs, name }: { url: string; expiryMs: number; name: string } = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs }))
const lock = await holdfast.locks.acquire(name)
process.send?.({ fence: lock.fence })
// Signals that arrive while the process is stopped are seen by the first turn of its event loop.
process.on('SIGUSR2', () => process.send?.({ held: lock.held, at: process.hrtime.bigint().toString() }))
