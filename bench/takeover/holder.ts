// Runs one of a contestant's worker processes. Its jobs never end. The process reports when a job starts.
import { openQueue } from '../jobs/contestants.ts'

const { name, addresses } = JSON.parse(process.argv[2]!)
const queue = await openQueue(name, addresses)
await queue.work(() => {
  process.send?.('started')
  return new Promise(() => {})
})
process.send?.('working')
