// A process that campaigns for one election, and tells of each term when it begins and ends. Thawed, it tells what its
// first look says.
import { Holdfast } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Given {
  url: string
  expiryMs: number
  anchor?: 'required' | 'none'
  name: string
  preferred?: boolean
}

const { url, expiryMs, anchor, name, preferred }: Given = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor }))
const now = () => process.hrtime.bigint().toString()
const campaign = holdfast.elections.campaign(
  name,
  async ({ signal, term }) => {
    process.send?.({ event: 'leads', term, at: now() })
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    process.send?.({ event: 'ends', term, at: now(), code: signal.reason.code })
  },
  { preferred },
)
process.send?.({ event: 'stands', instance: holdfast.id })
// Signals that arrive while the process is stopped are seen by the first turn of its event loop.
process.on('SIGUSR2', () => process.send?.({ event: 'looks', leads: campaign.leads, term: campaign.term, at: now() }))
process.on('message', async () => {
  await holdfast.close()
  process.disconnect()
})
