// A process that holds a lock, a lease and a leadership, writes its samples, and keeps all three.
import { Holdfast } from 'holdfast'

const { url }: { url: string } = JSON.parse(process.argv[2]!)
const holdfast = await Holdfast.open({ url, log: false })
await holdfast.locks.acquire('lock')
await holdfast.leases.acquire('lease', { ttl: '2s' })
await new Promise((resolve) => holdfast.elections.campaign('election', () => new Promise(resolve)))
// Samples do not contain shorter terms.
setTimeout(async () => {
  await (holdfast as unknown as { samples: { write(): Promise<void> } }).samples.write()
  process.send?.({ id: holdfast.id })
}, 1_100)
