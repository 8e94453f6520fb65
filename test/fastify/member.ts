// A web server that runs the job `wait`. The job ends when the test sends the message `finish`.
import { once } from 'node:events'
import Fastify from 'fastify'
import { defineJob } from 'holdfast'
import { holdfastPlugin } from 'holdfast/fastify'
import { patiently } from '../setup/patiently.ts'

const { url, name }: { url: string; name: string } = JSON.parse(process.argv[2]!)

const wait = defineJob('wait', {
  run: async (_: null, { id, attempt }) => {
    process.send!({ name, started: id, attempt })
    await once(process, 'message')
    return name
  },
})

const app = await patiently(async () => {
  const created = Fastify({ pluginTimeout: 60_000 })
  await created.register(holdfastPlugin, { url, name, log: false })
  return created
})
app.holdfast.jobs.work([wait])
process.once('SIGTERM', async () => {
  await app.close()
  process.exit()
})
await app.listen({ port: 0, host: '127.0.0.1' })
process.send!({ name, open: true })
