// A process that has names in all ways, tells of them, and keeps them.
import { Holdfast } from 'holdfast'

const { url }: { url: string } = JSON.parse(process.argv[2]!)
const holdfast = await Holdfast.open({ url })
await holdfast.locks.acquire('lock')
await holdfast.leases.acquire('lease', { ttl: '2s' })
await new Promise((resolve) => holdfast.elections.campaign('election', () => new Promise(resolve)))
// Shorter terms are not told of.
setTimeout(async () => {
  await (holdfast as unknown as { samples: { write(): Promise<void> } }).samples.write()
  process.send?.({ id: holdfast.id })
}, 1_100)
