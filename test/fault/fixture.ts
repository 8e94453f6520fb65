import { onTestFinished } from 'vitest'
import type { EmbeddedServer } from '../../src/embedded/index.js'
import { Holdfast, type HoldfastOptions } from '../../src/index.js'
import { freshDatabase } from '../setup/database.js'
import { Witness } from '../setup/facts.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'
import { patiently } from '../setup/patiently.ts'
import { SilentProxy } from './silent-proxy.js'

/** Minimum expiry, so that tests of the expiry are quick. */
export const expiryMs = 2_000

export async function openDatabase(): Promise<{ url: string; witness: Witness }> {
  const database = await freshDatabase()
  const witness = new Witness(database.url)
  onTestFinished(async () => {
    await witness.close()
    await database.drop()
  })
  return { url: database.url, witness }
}

/** Starts a server for one test, which may restart it. */
export async function openServer(
  settings: Record<string, string> = {},
): Promise<{ server: EmbeddedServer; url: string; witness: Witness }> {
  const server = await ownServer({ fsync: 'off', ...settings })
  const url = await ownDatabase(server)
  const witness = new Witness(url)
  onTestFinished(() => witness.close())
  return { server, url, witness }
}

export async function openInstance(url: string, options: Partial<HoldfastOptions> = {}): Promise<Holdfast> {
  const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, ...options, log: false }))
  onTestFinished(() => holdfast.close())
  return holdfast
}

export async function openProxy(url: string): Promise<SilentProxy> {
  const proxy = await SilentProxy.before(url)
  onTestFinished(() => proxy.close())
  return proxy
}
