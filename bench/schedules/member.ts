// Runs an instance with default settings. The instance adds the schedules that it receives from the bench, and reports its runs.
import { once } from 'node:events'
import { Holdfast } from 'holdfast'

export interface RunReport {
  name: string
  tick: number
  late: number
}

const message = once(process, 'message')
const holdfast = await Holdfast.open({ url: process.argv[2]! })
const [schedules] = await message
for (const [name, options] of schedules) {
  holdfast.schedules.add(name, options, ({ tick, lateMs }) =>
    process.send?.({ name, tick: tick.getTime(), late: lateMs }),
  )
}
process.send?.('open')
