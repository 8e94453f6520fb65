// An instance of the bench, with default settings: it has the schedules that it is told, and says what it runs.
import { Holdfast } from 'holdfast'

const [, , url, given] = process.argv
const holdfast = await Holdfast.open({ url })
for (const [name, options] of JSON.parse(given)) {
  holdfast.schedules.add(name, options, ({ tick, late }) => process.send({ name, tick: tick.getTime(), late }))
}
process.send('open')
