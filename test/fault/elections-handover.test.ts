import { expect, test } from 'vitest'
import type { Holdfast } from '../../src/index.js'
import { judge } from '../property/history.js'
import { countOf } from '../property/seed.js'
import { until, within } from '../setup/facts.js'
import { Child, quantiles } from './children.js'
import { expiryMs, openDatabase, openInstance, openServer } from './fixture.js'

// Handovers from a leader that is killed, frozen or disconnected to the next leader.

interface Message {
  event: 'ready' | 'leads' | 'ends' | 'checked'
  instance: string
  term: number
  leads: boolean
  code: string
  at: string
}

function candidate(url: string, details: object = {}): Child<Message> {
  return new Child('./candidate.ts', { url, expiryMs, name: 'x', ...details })
}

/** Campaigns in this process. Resolves when the instance leads. */
function stand(holdfast: Holdfast, name = 'x'): Promise<{ at: bigint; term: number }> {
  return new Promise((resolve) => {
    holdfast.elections.campaign(name, async ({ term, signal }) => {
      resolve({ at: process.hrtime.bigint(), term })
      await new Promise((ended) => signal.addEventListener('abort', ended))
    })
  })
}

const msBetween = (from: bigint, to: bigint) => Number(to - from) / 1e6

const kills = countOf(9)

test(`the next candidate leads after each of ${kills} kills of a leader`, { timeout: 300_000 }, async () => {
  const { url, witness } = await openDatabase()
  const took: number[] = []
  // All leaders start at the same time, because starting takes long. A handover that waited for the expiry would take a minute.
  const leaders = Array.from({ length: kills }, (_, i) => candidate(url, { name: `n${i}`, expiryMs: 60_000 }))
  for (const [i, leader] of leaders.entries()) {
    const { term } = await leader.waitFor('it leads', ({ event }) => event === 'leads')
    const next = await openInstance(url)
    const leading = stand(next, `n${i}`)
    await witness.seesWaiter()
    const killedAt = leader.kill()
    const { at, term: laterTerm } = await within(15_000, 'The next term', leading)
    took.push(msBetween(killedAt, at))
    expect(laterTerm).toBeGreaterThan(term)
    await next.close()
  }
  console.log(`from the kill of a leader to the next leader's function, ${quantiles(took)}`)
})

test('at most one candidate leads at a time when leaders are killed, frozen or lose their session', {
  timeout: 300_000,
}, async () => {
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
      const { instance } = await child.waitFor('ready', ({ event }) => event === 'ready')
      const from = process.hrtime.bigint()
      for (const pid of await witness.sessions(instance)) await witness.terminate(pid)
      endings.push({ pid: child.process.pid!, from, to: process.hrtime.bigint() })
    } else {
      child.process.kill('SIGSTOP')
      frozen.add(last)
      await leading(last)
      child.process.kill('SIGUSR2')
      child.process.kill('SIGCONT')
      const check = await child.waitFor('its first check', ({ event }) => event === 'checked')
      expect(check.leads).toBe(false)
      child.messages.splice(child.messages.indexOf(check), 1)
    }
  }
  await leading(last)
  await until('the follower has seen the last leader', () => seen.has(Math.max(...terms().map(({ term }) => term))))
  const holds = children.flatMap((child) =>
    child.messages
      .filter(({ event }) => event === 'leads')
      .map(({ term, at }, i) => {
        const end = child.messages.find((message) => message.event === 'ends' && message.term === term)
        // A thawed leader first receives the notification of its loss, or an earlier request to step down.
        const to = end ? BigInt(end.at) : (child.killedAt ?? process.hrtime.bigint())
        return {
          id: `${child.process.pid}:${i}`,
          schedule: 0,
          names: ['x'],
          mode: 'exclusive' as const,
          fence: term,
          from: BigInt(at),
          to: frozen.has(term as number) ? BigInt(at) : to,
          notifiedAt: undefined,
        }
      }),
  )
  expect(holds.length).toBeGreaterThan(5)
  expect(judge(holds, endings).violations).toEqual([])
  await follower.close()
  await watching
})

test('a frozen leader is replaced after its expiry and knows of the loss as soon as it is thawed', {
  timeout: 60_000,
}, async () => {
  const { url, witness } = await openDatabase()
  const leader = candidate(url)
  const { term } = await leader.waitFor('it leads', ({ event }) => event === 'leads')
  const leading = stand(await openInstance(url))
  await witness.seesWaiter()
  const frozenAt = process.hrtime.bigint()
  leader.process.kill('SIGSTOP')
  const next = await within(4 * expiryMs, 'The next term', leading)
  console.log(
    `from the freeze of a leader to the next leader: ${msBetween(frozenAt, next.at).toFixed(0)} ms, expiry ${expiryMs} ms`,
  )
  expect(next.term).toBeGreaterThan(term)
  leader.process.kill('SIGUSR2')
  leader.process.kill('SIGCONT')
  expect(await leader.waitFor('its first check', ({ event }) => event === 'checked')).toMatchObject({ leads: false })
  expect(await leader.waitFor('the end of its term', ({ event }) => event === 'ends')).toMatchObject({
    code: 'LOCK_LOST',
    term,
  })
})

test('a killed leader without an anchor is replaced when its lease expires', { timeout: 60_000 }, async () => {
  const { url } = await openDatabase()
  const leader = candidate(url, { anchor: 'none' })
  const { term } = await leader.waitFor('it leads', ({ event }) => event === 'leads')
  const next = await openInstance(url, { anchor: 'none' })
  const leading = stand(next)
  const killedAt = leader.kill()
  const { at, term: later } = await within(4 * expiryMs, 'The next term', leading)
  console.log(
    `from the kill of a leader with a lease to the next leader: ${msBetween(killedAt, at).toFixed(0)} ms, expiry ${expiryMs} ms`,
  )
  expect(later).toBeGreaterThan(term)
  expect((await next.elections.leader('x'))?.instance).toBe(next.id)
})

test('a killed preferred leader is replaced immediately by a candidate that is not preferred', {
  timeout: 120_000,
}, async () => {
  const { url, witness } = await openDatabase()
  const took: number[] = []
  for (let time = 0; time < kills; time++) {
    const leader = candidate(url, { preferred: true, name: `p${time}`, expiryMs: 60_000 })
    await leader.waitFor('it leads', ({ event }) => event === 'leads')
    const next = await openInstance(url)
    const leading = stand(next, `p${time}`)
    await witness.seesWaiter()
    const killedAt = leader.kill()
    took.push(msBetween(killedAt, (await within(15_000, 'The next term', leading)).at))
    await next.close()
  }
  console.log(`from the kill of a preferred leader to the next leader, ${quantiles(took)}`)
})

test('a candidate leads again, in a later term, after a restart of the server', { timeout: 60_000 }, async () => {
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
    const before = await until('an instance leads', () => terms.find(({ signal }) => !signal.aborted))
    await server.restart(how)
    await until('the leader is notified of the loss', () => before.signal.aborted)
    const after = await until('an instance leads again', () => terms.find(({ signal }) => !signal.aborted), 20_000)
    expect(after.term).toBeGreaterThan(before.term)
    await until('the new leader is visible', async () => {
      const leader = await instances[0]!.elections.leader('x').catch(() => null)
      return leader?.term === after.term
    })
  }
})
