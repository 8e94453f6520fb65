// A worker process of the bench, with default settings but for the way to claim; says from time to time how many jobs it has run.
import { defineJob, Holdfast } from 'holdfast'

const [, , url, claims] = process.argv
const holdfast = await Holdfast.open({ url, jobs: { claims } })
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
