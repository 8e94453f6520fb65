// A process that takes part in the schedules of a test.
import { type Duration, Holdfast } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface MemberOptions {
  url: string
  schedules: { name: string; every: Duration }[]
}

const { url, schedules }: MemberOptions = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, namespace: 'shop', expiry: '2s', log: false }))
for (const { name, every } of schedules) {
  holdfast.schedules.add(name, { every }, ({ log }) => log(`by ${process.pid}`))
}
process.on('disconnect', () => process.exit())
process.send?.({ id: holdfast.id })
