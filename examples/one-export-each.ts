// Three server processes of one API. Each user may have one export at a time. A request for a second export, on any server, is rejected immediately.
// If the server that runs an export is killed, the user's next export can start soon afterwards.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Holdfast } from 'holdfast'
import { withDatabase } from './database.ts'
import type { Action, Answer } from './one-export-each/server.ts'

let asked = 0
const program = fileURLToPath(new URL('./one-export-each/server.ts', import.meta.url))

await withDatabase(async (url) => {
  const servers = await Promise.all([start(url), start(url), start(url)])
  const [first, second, third] = servers

  console.log('alice, first server:', await ask(first, 'alice'))
  console.log('alice, second server:', await ask(second, 'alice'))
  console.log('bob, second server:', await ask(second, 'bob'))

  console.log('alice, first server:', await ask(first, 'alice', 'finish'))
  console.log('alice, second server:', await ask(second, 'alice'))

  // Ten requests at the same time, distributed over the servers as by a load balancer.
  const burst = await Promise.all(Array.from({ length: 10 }, (_, i) => ask(servers[i % 3]!, 'carol')))
  console.log(
    'carol, ten requests at the same time:',
    burst.filter((answer) => answer.startsWith('202')).length,
    'started',
  )

  second.kill('SIGKILL')
  await once(second, 'exit')
  console.log('alice, after the second server was killed:', await ask(third, 'alice', 'patiently'))

  const holdfast = await Holdfast.open({ url })
  const { inUse, holders } = await holdfast.limits.usage('export:alice')
  console.log(`permits in use for alice: ${inUse}, held by the third server: ${holders[0]?.pid === third.pid}`)
  await holdfast.close()
  for (const server of [first, third]) {
    server.send({ close: true })
    await once(server, 'exit')
  }
})

async function start(url: string) {
  const server = fork(program, [url])
  await once(server, 'message')
  return server
}

function ask(server: ChildProcess, user: string, what: Action = 'export') {
  const id = ++asked
  return new Promise<string>((resolve) => {
    const hear = (message: Answer) => {
      if (message.id !== id) return
      server.off('message', hear)
      resolve(message.answer)
    }
    server.on('message', hear)
    server.send({ id, user, what })
  })
}

// prints:
// alice, first server: 202 export started
// alice, second server: 429 an export is already running (1 of 1)
// bob, second server: 202 export started
// alice, first server: 200 export finished
// alice, second server: 202 export started
// carol, ten requests at the same time: 1 started
// alice, after the second server was killed: 202 export started
// permits in use for alice: 1, held by the third server: true
