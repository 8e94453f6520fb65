import { expect, test } from 'vitest'
import type { Holdfast } from '../../src/index.js'
import { judge } from '../property/history.js'
import { until, within } from '../setup/facts.js'
import { Child, quantiles } from './children.js'
import { expiryMs, openDatabase, openInstance, openServer } from './fixture.js'

// From a leader that dies, stands still or is cut off, to the next one.

interface Told {
  event: 'stands' | 'leads' | 'ends' | 'looks'
  instance: string
  term: number
  leads: boolean
  code: string
  at: string
}

function candidate(url: string, details: object = {}): Child<Told> {
  return new Child('./candidate.ts', { url, expiryMs, name: 'x', ...details })
}

/** Stands in this process, and answers with when it leads. */
function stand(holdfast: Holdfast, name = 'x'): Promise<{ at: bigint; term: number }> {
  return new Promise((resolve) => {
    holdfast.elections.campaign(name, async ({ term, signal }) => {
      resolve({ at: process.hrtime.bigint(), term })
      await new Promise((ended) => signal.addEventListener('abort', ended))
    })
  })
}

const msBetween = (from: bigint, to: bigint) => Number(to - from) / 1e6

const kills = 5

test(`after each of ${kills} kills the next candidate leads`, { timeout: 300_000 }, async () => {
  const { url, witness } = await openDatabase()
  const took: number[] = []
  // They start together, for that is what takes time. A handover that waited for their expiry would take a minute.
  const leaders = Array.from({ length: kills }, (_, i) => candidate(url, { name: `n${i}`, expiryMs: 60_000 }))
  for (const [i, leader] of leaders.entries()) {
    const { term } = await leader.tells('it leads', ({ event }) => event === 'leads')
    const next = await openInstance(url)
    const leading = stand(next, `n${i}`)
    await witness.seesWaiter()
    const killedAt = leader.kill()
    const { at, term: laterTerm } = await within(15_000, 'The next term', leading)
    took.push(msBetween(killedAt, at))
    expect(laterTerm).toBeGreaterThan(term)
    await next.close()
  }
  console.log(`killed leader to the next one's function, ${quantiles(took)}`)
})

test('several processes: one leads at a time, whoever is killed, frozen or ended', { timeout: 300_000 }, async () => {
  const { url, witness } = await openDatabase()
  const follower = await openInstance(url)
  const seen = new Set<number>()
  const watching = (async () => {
    for await (const leader of follower.elections.watch('x')) if (leader) seen.add(leader.term)
  })()
  const children = Array.from({ length: 4 }, (_, i) => candidate(url, { preferred: i === 3 }))
  const terms = () => children.flatMap(({ messages }) => messages.filter(({ event }) => event === 'leads'))
  const leading = async (after: number) => {
    const term = await until('a later term', () => terms().find(({ term }) => term > after))
    return { term, child: children.find(({ messages }) => messages.includes(term))! }
  }
  let last = 0
  const frozen = new Set<number>()
  const endings: { pid: number; from: bigint; to: bigint }[] = []
  for (const fault of ['kill', 'freeze', 'end', 'freeze', 'kill'] as const) {
    const { child, term } = await leading(last)
    last = term.term
    if (fault === 'kill') child.kill()
    else if (fault === 'end') {
      const { instance } = await child.tells('its name', ({ event }) => event === 'stands')
      const from = process.hrtime.bigint()
      for (const pid of await witness.sessions(instance)) await witness.terminate(pid)
      endings.push({ pid: child.process.pid!, from, to: process.hrtime.bigint() })
    } else {
      child.process.kill('SIGSTOP')
      frozen.add(last)
      await leading(last)
      child.process.kill('SIGUSR2')
      child.process.kill('SIGCONT')
      const look = await child.tells('its first look', ({ event }) => event === 'looks')
      expect(look.leads).toBe(false)
      child.messages.splice(child.messages.indexOf(look), 1)
    }
  }
  await leading(last)
  await until('the follower saw the last one', () => seen.has(Math.max(...terms().map(({ term }) => term))))
  const holds = children.flatMap((child) =>
    child.messages
      .filter(({ event }) => event === 'leads')
      .map(({ term, at }, i) => {
        const end = child.messages.find((message) => message.event === 'ends' && message.term === term)
        // What a leader does after it was frozen begins with being told, of its loss or of an earlier wish that it step down.
        const to = end ? BigInt(end.at) : (child.killedAt ?? process.hrtime.bigint())
        return {
          id: `${child.process.pid}:${i}`,
          schedule: 0,
          names: ['x'],
          mode: 'exclusive' as const,
          fence: term,
          from: BigInt(at),
          to: frozen.has(term as number) ? BigInt(at) : to,
          toldAt: undefined,
        }
      }),
  )
  expect(holds.length).toBeGreaterThan(5)
  expect(judge(holds, endings).violations).toEqual([])
  await follower.close()
  await watching
})

test('a frozen leader is followed at its expiry, and knows it when it is thawed', { timeout: 60_000 }, async () => {
  const { url, witness } = await openDatabase()
  const leader = candidate(url)
  const { term } = await leader.tells('it leads', ({ event }) => event === 'leads')
  const leading = stand(await openInstance(url))
  await witness.seesWaiter()
  const frozenAt = process.hrtime.bigint()
  leader.process.kill('SIGSTOP')
  const next = await within(4 * expiryMs, 'The next term', leading)
  console.log(`frozen leader to the next: ${msBetween(frozenAt, next.at).toFixed(0)} ms, expiry ${expiryMs} ms`)
  expect(next.term).toBeGreaterThan(term)
  leader.process.kill('SIGUSR2')
  leader.process.kill('SIGCONT')
  expect(await leader.tells('its first look', ({ event }) => event === 'looks')).toMatchObject({ leads: false })
  expect(await leader.tells('its end', ({ event }) => event === 'ends')).toMatchObject({ code: 'LOCK_LOST', term })
})

test('without an anchor a killed leader is followed at the end of its lease', { timeout: 60_000 }, async () => {
  const { url } = await openDatabase()
  const leader = candidate(url, { anchor: 'none' })
  const { term } = await leader.tells('it leads', ({ event }) => event === 'leads')
  const next = await openInstance(url, { anchor: 'none' })
  const leading = stand(next)
  const killedAt = leader.kill()
  const { at, term: later } = await within(4 * expiryMs, 'The next term', leading)
  console.log(`killed leader by lease to the next: ${msBetween(killedAt, at).toFixed(0)} ms, expiry ${expiryMs} ms`)
  expect(later).toBeGreaterThan(term)
  expect((await next.elections.leader('x'))?.instance).toBe(next.id)
})

test('a preferred leader that is killed is followed at once by one that is not preferred', {
  timeout: 120_000,
}, async () => {
  const { url, witness } = await openDatabase()
  const took: number[] = []
  for (let time = 0; time < 5; time++) {
    const leader = candidate(url, { preferred: true, name: `p${time}`, expiryMs: 60_000 })
    await leader.tells('it leads', ({ event }) => event === 'leads')
    const next = await openInstance(url)
    const leading = stand(next, `p${time}`)
    await witness.seesWaiter()
    const killedAt = leader.kill()
    took.push(msBetween(killedAt, (await within(15_000, 'The next term', leading)).at))
    await next.close()
  }
  console.log(`killed preferred leader to the next, ${quantiles(took)}`)
})

test('after a restart of the server one leads again, in a later term', { timeout: 60_000 }, async () => {
  const { server, url } = await openServer()
  const instances = [await openInstance(url), await openInstance(url)]
  const terms: { term: number; signal: AbortSignal }[] = []
  for (const { elections } of instances) {
    elections.campaign('x', async (leadership) => {
      terms.push(leadership)
      await new Promise((resolve) => leadership.signal.addEventListener('abort', resolve))
    })
  }
  for (const how of ['fast', 'immediate'] as const) {
    const before = await until('one leads', () => terms.find(({ signal }) => !signal.aborted))
    await server.restart(how)
    await until('it is told', () => before.signal.aborted)
    const after = await until('one leads again', () => terms.find(({ signal }) => !signal.aborted), 20_000)
    expect(after.term).toBeGreaterThan(before.term)
    await until('it is known', async () => {
      const leader = await instances[0]!.elections.leader('x').catch(() => null)
      return leader?.term === after.term
    })
  }
})
