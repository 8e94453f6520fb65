// A process that campaigns in one election and reports the start and the end of each term. After SIGUSR2, it reports whether it leads.
import { Holdfast } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  expiryMs: number
  anchor?: 'required' | 'none'
  name: string
  preferred?: boolean
}

const { url, expiryMs, anchor, name, preferred }: Options = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor, log: false }))
const now = () => process.hrtime.bigint().toString()
const campaign = holdfast.elections.campaign(name, { preferred }, async ({ signal, term }) => {
  process.send?.({ event: 'leads', term, at: now() })
  await new Promise((resolve) => signal.addEventListener('abort', resolve))
  process.send?.({ event: 'ends', term, at: now(), code: signal.reason.code })
})
process.send?.({ event: 'ready', instance: holdfast.id })
// A signal that arrives while the process is frozen is handled in the first turn of its event loop.
process.on('SIGUSR2', () => process.send?.({ event: 'checked', leads: campaign.leads, term: campaign.term, at: now() }))
process.on('message', async () => {
  await holdfast.close()
  process.disconnect()
})
