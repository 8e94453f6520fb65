// Runs `holdfast demo` on a Patroni cluster. Meanwhile, the cluster's leader is switched over, killed and cut off.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { missing, startCluster } from './cluster.ts'

const holdfast = fileURLToPath(new URL('./cli/bin.js', import.meta.resolve('holdfast')))
const restMs = 20_000

if (missing.length > 0) fail(`Required packages are not installed. Run: apt-get install ${missing.join(' ')}`)
// Ctrl-C also reaches the demo. The demo closes first, and then this program closes.
const over = new AbortController()
process.on('SIGINT', () => over.abort())

tell('starting etcd, three PostgreSQL nodes with Patroni, and HAProxy')
const cluster = await startCluster().catch(({ message }: Error) => fail(message))
try {
  if (!over.signal.aborted) await show()
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
} finally {
  await cluster.stop()
}

async function show() {
  tell(`complete, leader is ${await cluster.leader()}: ${cluster.url}`)
  const words = ['demo', '--url', cluster.url, '--seconds', '600']
  const demo = spawn(process.execPath, [holdfast, ...words], { stdio: 'inherit' })
  const ended = once(demo, 'exit')
  demo.once('exit', () => over.abort())
  try {
    await faults()
  } catch (error) {
    if (!over.signal.aborted) throw error
  } finally {
    if (!over.signal.aborted) demo.kill('SIGINT')
    const [status] = await ended
    process.exitCode = status ?? 1
  }
}

async function faults() {
  const rest = () => pause(restMs, undefined, { signal: over.signal })
  for (const [fault, told] of [
    ['switchover', 'is being switched over'],
    ['kill', 'is killed, with PostgreSQL and Patroni'],
    ['cutOff', 'is cut off'],
  ] as const) {
    await rest()
    const began = performance.now()
    tell(`${await cluster.leader()} ${told}`)
    const former = await cluster[fault]()
    const next = await cluster.successorOf(former)
    tell(`${next} is the leader, after ${((performance.now() - began) / 1_000).toFixed(1)} s`)
    await rest()
    await cluster.heal()
    tell(`complete again, ${former} follows ${next}`)
  }
  await rest()
}

function tell(text: string) {
  console.log(`***** cluster: ${text}`)
}

function fail(text: string): never {
  console.error(text)
  process.exit(1)
}
