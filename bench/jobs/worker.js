// A worker process of the bench, with default settings; says from time to time how many jobs it has run.
import { defineJob, Holdfast } from 'holdfast'

const holdfast = await Holdfast.open({ url: process.argv[2] })
let count = 0
holdfast.jobs.work([
  defineJob('noop', {
    run() {
      count++
    },
  }),
])
process.send('working')
setInterval(() => process.send(count), 50)
