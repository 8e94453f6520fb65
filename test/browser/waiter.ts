// A process that holds some names and then waits for another name. The library cannot connect this wait with the held names, so
// the process hangs forever.
import { Holdfast } from 'holdfast'

type How = 'lock' | 'lease'

interface WaiterOptions {
  url: string
  namespace: string
  holds?: [how: How, name: string][]
}

const { url, namespace, holds = [] }: WaiterOptions = JSON.parse(process.argv[2]!)
const holdfast = await Holdfast.open({ url, namespace, log: false })
const roomOf = { lock: holdfast.locks, lease: holdfast.leases }
for (const [how, name] of holds) await roomOf[how].acquire(name)
process.on('message', async ({ how, name }: { how: How; name: string }) => {
  process.send?.({ event: 'waits' })
  await roomOf[how].acquire(name)
  process.send?.({ event: 'has' })
})
process.send?.({ event: 'holds', pid: process.pid })
