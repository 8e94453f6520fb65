// Partitions in the kernel's network instead of a proxy: the holder runs in its own network namespace, and a wrong address of the network
// interface drops all packets in one direction. Both kernels send their packets again, and neither is notified.
import { execFileSync, spawn } from 'node:child_process'
import { appendFileSync, chmodSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { startEmbedded } from '../../src/embedded/index.js'
import { until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { typescript } from '../setup/typescript.js'
import { runsAll } from '../setup/variants.js'
import { expiryMs } from './fixture.js'

const [namespace, outside, inside] = ['holdfast-test', 'holdfast0', 'holdfast1']
const [serverAddress, holderAddress] = ['10.77.0.1', '10.77.0.2']
const ip = (command: string) => execFileSync('ip', command.split(' '), { encoding: 'utf8', stdio: 'pipe' })
const macOf = (link: string, where = '') => /ether (\S+)/.exec(ip(`${where}link show ${link}`.trim()))![1]!

/** Why the test cannot run here. */
function missing(): string | undefined {
  if (!runsAll) return 'it takes 20 seconds'
  try {
    ip(`netns add ${namespace}`)
    ip(`netns del ${namespace}`)
    return undefined
  } catch (error) {
    const reason = `network namespaces need root and the Debian package iproute2: ${(error as Error).message}`
    console.warn(reason)
    return reason
  }
}

const unreachable = 'lladdr 02:00:00:00:00:99'

test.skipIf(missing() !== undefined)(
  'a holder behind a one-way cut of the network gives up its lock before another process gets it',
  { timeout: 120_000 },
  async () => {
    ip(`netns add ${namespace}`)
    onTestFinished(() => void ip(`netns del ${namespace}`))
    ip(`link add ${outside} type veth peer name ${inside} netns ${namespace}`)
    ip(`addr add ${serverAddress}/24 dev ${outside}`)
    ip(`link set ${outside} up`)
    ip(`-n ${namespace} addr add ${holderAddress}/24 dev ${inside}`)
    ip(`-n ${namespace} link set ${inside} up`)
    const [outsideMac, insideMac] = [macOf(outside), macOf(inside, `-n ${namespace} `)]

    const directory = mkdtempSync(join(tmpdir(), 'holdfast-namespaces-'))
    chmodSync(directory, 0o755)
    onTestFinished(() => rm(directory, { recursive: true, force: true }))
    const dataDir = join(directory, 'data')
    const settings = { listen_addresses: `127.0.0.1,${serverAddress}`, fsync: 'off' }
    const server = await startEmbedded({ dataDir, settings })
    onTestFinished(() => server.stop('immediate'))
    appendFileSync(join(dataDir, 'pg_hba.conf'), `host all all ${holderAddress}/32 scram-sha-256\n`)
    await server.restart('fast')
    const url = await server.createDatabase('app')
    const other = await open({ url, expiry: expiryMs })

    const toServer = `-n ${namespace} neigh replace ${serverAddress} dev ${inside} nud permanent`
    const toHolder = `neigh replace ${holderAddress} dev ${outside} nud permanent`
    const cuts: [name: string, cut: () => unknown, heal: () => unknown][] = [
      ['to the server', () => ip(`${toServer} ${unreachable}`), () => ip(`${toServer} lladdr ${outsideMac}`)],
      ['to the holder', () => ip(`${toHolder} ${unreachable}`), () => ip(`${toHolder} lladdr ${insideMac}`)],
      ['in both directions', () => ip(`link set ${outside} down`), () => ip(`link set ${outside} up`)],
    ]
    for (const [name, cut, heal] of cuts) {
      const program = fileURLToPath(new URL('./namespace-holder.ts', import.meta.url))
      const details = JSON.stringify({ url: url.replace('127.0.0.1', serverAddress!), expiryMs })
      const holder = spawn('ip', ['netns', 'exec', namespace!, process.execPath, ...typescript, program, details])
      onTestFinished(() => void holder.kill('SIGKILL'))
      let output = ''
      for (const stream of [holder.stdout, holder.stderr]) stream.on('data', (text) => (output += text))
      await until(`the holder has its lock: ${output}`, () => output.includes('held'))
      const waiting = other.locks.acquire('x', { wait: '30s' })
      const cutAt = process.hrtime.bigint()
      cut()
      const lock = await waiting
      const grantedAt = process.hrtime.bigint()
      await until('the holder has reported the loss', () => output.includes('lost'))
      const lostAt = BigInt(/lost (\d+)/.exec(output)![1]!)
      const seconds = (at: bigint) => (Number(at - cutAt) / 1e9).toFixed(1)
      console.info(`Cut ${name}: given up after ${seconds(lostAt)} s, granted again after ${seconds(grantedAt)} s`)
      expect(lostAt).toBeLessThan(grantedAt)
      await lock.release()
      holder.kill('SIGKILL')
      heal()
    }
  },
)
