// A worker process of a contestant that never ends what it has begun, and says when it begins.
import { openQueue } from '../jobs/contestants.ts'

const { name, at } = JSON.parse(process.argv[2]!)
const queue = await openQueue(name, at)
await queue.work(() => {
  process.send?.('begun')
  return new Promise(() => {})
})
process.send?.('working')
