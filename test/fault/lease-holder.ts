// A process that leases one name and keeps it. It says when it has it, and what its first look tells after it was thawed.
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { patiently } from '../setup/patiently.ts'

interface Given {
  url: string
  ttlMs: number
  name: string
  anchor?: 'required' | 'none'
}

const { url, ttlMs, name, anchor }: Given = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, anchor }))
const lease = await holdfast.leases.acquire(name, { ttl: ttlMs })
// Open before it is frozen, so that the write is the first thing that it does.
const client = new pg.Client({ connectionString: url })
await client.connect()
// Signals that arrive while the process is stopped are seen by the first turn of its event loop.
process.on('SIGUSR2', async () => {
  const held = lease.held
  // As somebody would who does not look.
  await client.query('begin')
  const refused = await client.query('select holdfast.guard_lease($1, $2)', [lease.key, lease.fence]).then(
    () => null,
    (error) => error.code,
  )
  process.send?.({ held, aborted: lease.signal.aborted, reason: lease.signal.reason?.code, refused })
})
// Only now: a signal that nobody listens for would end the process.
process.send?.({ fence: lease.fence })
