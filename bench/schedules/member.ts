// An instance of the bench, with default settings: it has the schedules that it is told, and says what it runs.
import { once } from 'node:events'
import { Holdfast } from 'holdfast'

/** What it says of a run. */
export interface Ran {
  name: string
  tick: number
  late: number
}

const given = once(process, 'message')
const holdfast = await Holdfast.open({ url: process.argv[2]! })
const [schedules] = await given
for (const [name, options] of schedules) {
  holdfast.schedules.add(name, options, ({ tick, lateMs }) =>
    process.send?.({ name, tick: tick.getTime(), late: lateMs }),
  )
}
process.send?.('open')
