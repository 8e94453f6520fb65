// A process in another network namespace that holds a lock and reports when its signal aborts.
import { Holdfast } from 'holdfast'

const { url, expiryMs }: { url: string; expiryMs: number } = JSON.parse(process.argv[2]!)
const holdfast = await Holdfast.open({ url, expiry: expiryMs, log: false })
const { signal } = await holdfast.locks.acquire('x')
console.log('held')
signal.addEventListener('abort', () => console.log(`lost ${process.hrtime.bigint()}`))
