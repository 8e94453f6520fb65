// An instance that settles the ticks of stored schedules and runs their jobs.
import { defineJob, Holdfast } from 'holdfast'

const holdfast = await Holdfast.open({ url: process.argv[2]! })
await holdfast.jobs.work([defineJob('tick', { run: (_: { at: number }) => {} })], { concurrency: 50 }).ready()
process.once('SIGTERM', () => holdfast.close().then(() => process.exit(0)))
process.send!('ready')
