import { afterEach } from 'vitest'
import type { EmbeddedServer } from '../../src/embedded/index.js'
import { Holdfast, type HoldfastOptions } from '../../src/holdfast.js'
import { freshDatabase } from '../setup/database.js'
import { Witness } from '../setup/facts.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'
import { SilentProxy } from './silent-proxy.js'

/** What a test of faults needs, all of it taken away after the test. */
const leftovers: (() => Promise<unknown>)[] = []

export function takeAwayAfterEach(): void {
  afterEach(async () => {
    for (const remove of leftovers.splice(0).reverse()) await remove()
  })
}

export function later(remove: () => Promise<unknown>): void {
  leftovers.push(remove)
}

/** The shortest expiry that there is, so that tests of it are quick. */
export const expiryMs = 2_000

export async function openDatabase(): Promise<{ url: string; witness: Witness }> {
  const database = await freshDatabase()
  const witness = new Witness(database.url)
  later(async () => {
    await witness.close()
    await database.drop()
  })
  return { url: database.url, witness }
}

/** A server of one's own, for tests that restart it. */
export async function openServer(
  settings: Record<string, string> = {},
): Promise<{ server: EmbeddedServer; url: string; witness: Witness }> {
  const server = await ownServer({ fsync: 'off', ...settings })
  const url = await ownDatabase(server)
  const witness = new Witness(url)
  later(() => witness.close())
  return { server, url, witness }
}

export async function openInstance(url: string, options: Partial<HoldfastOptions> = {}): Promise<Holdfast> {
  const holdfast = await Holdfast.open({ url, expiry: expiryMs, ...options })
  later(() => holdfast.close())
  return holdfast
}

export async function openProxy(url: string): Promise<SilentProxy> {
  const proxy = await SilentProxy.before(url)
  later(() => proxy.close())
  return proxy
}
