// A process that acquires a lease and keeps it. It reports the fence, and after SIGUSR2 the state of the lease and of a guarded write.
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  ttlMs: number
  name: string
  anchor?: 'required' | 'none'
}

const { url, ttlMs, name, anchor }: Options = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, anchor, log: false }))
const lease = await holdfast.leases.acquire(name, { ttl: ttlMs })
// Connects before the freeze, so that the thawed process can write immediately.
const client = new pg.Client({ connectionString: url })
await client.connect()
// A signal that arrives while the process is frozen is handled in the first turn of its event loop.
process.on('SIGUSR2', async () => {
  const held = lease.held
  // Writes without checking `held`, as a careless user would.
  await client.query('begin')
  const refused = await client.query('select holdfast.guard_lease($1, $2)', [lease.key, lease.fence]).then(
    () => null,
    (error) => error.code,
  )
  process.send?.({ held, aborted: lease.signal.aborted, reason: lease.signal.reason?.code, refused })
})
// Sent after the listener exists, because SIGUSR2 without a listener would end the process.
process.send?.({ fence: lease.fence })
