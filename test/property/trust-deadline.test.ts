// Invariant 1 of the design: the client gives up a lock before the server can grant it to anyone else. These tests run the class TrustDeadline on a
// simulated clock with slow networks, frozen processes and late timers, and compare it with a model of the server.
import { afterEach, expect, test, vi } from 'vitest'
import { HoldfastError, TrustDeadline } from '../../src/base/index.js'
import { type Random, randomFrom } from './random.js'
import { countOf, seedOf } from './seed.js'

const expiryMs = 1_000
const trustMs = 900
/** Maximum delay of a timer while the process runs. */
const maxTimerDelayMs = 20

class Lost extends HoldfastError {
  constructor(message: string) {
    super(message, { code: 'LOCK_LOST', retryable: true })
  }
}

class Trust extends TrustDeadline {
  constructor(sentAt: number) {
    super(sentAt, trustMs)
    this.watchDeadline()
  }

  answer(sentAt: number): boolean {
    return this.answered(sentAt, trustMs)
  }

  protected lossByDeadline(lateMs: number): HoldfastError {
    return new Lost(`${lateMs} ms late`)
  }
}

interface Event {
  readonly at: number
  readonly run: () => void
}

/** Simulated clock of the client, with the timers of its event loop. */
class Clock {
  now = 0
  isInTimer = false
  #events = new Set<Event>()

  constructor(random: Random) {
    vi.spyOn(performance, 'now').mockImplementation(() => this.now)
    vi.spyOn(globalThis, 'setTimeout').mockImplementation(((work: () => void, ms: number) =>
      this.plan(Math.max(1, Math.trunc(ms)) + random.below(maxTimerDelayMs), () => {
        this.isInTimer = true
        work()
        this.isInTimer = false
      })) as never)
    vi.spyOn(globalThis, 'clearTimeout').mockImplementation((timer) => void this.#events.delete(timer as never))
  }

  plan(inMs: number, run: () => void): Event {
    const event = { at: this.now + inMs, run }
    this.#events.add(event)
    return event
  }

  /** Lets the process run for `ms`. Each event happens when it is due. Calls `watch` at every moment. */
  run(ms: number, watch: () => void): void {
    const until = this.now + ms
    for (;;) {
      const [next] = [...this.#events].sort((a, b) => a.at - b.at)
      watch()
      if (!next || next.at > until) break
      this.now = Math.max(this.now, next.at)
      watch()
      this.#events.delete(next)
      next.run()
    }
    this.now = until
    watch()
  }

  /** Freezes the process for `ms`. Then runs `next`, and after it all due events in random order. */
  freeze(ms: number, random: Random, next: () => void): void {
    this.now += ms
    next()
    for (const event of random.some([...this.#events], this.#events.size)) {
      if (event.at > this.now || !this.#events.delete(event)) continue
      event.run()
    }
  }
}

/** Performs random operations until the trust is lost, and for a while after that. Returns the violated rules. */
function walk(seed: number, make: (sentAt: number, clock: Clock) => Trust): string[] {
  const random = randomFrom(seed)
  const clock = new Clock(random)
  const violations = new Set<string>()
  const check = (holds: boolean, rule: string) => {
    if (!holds) violations.add(rule)
  }
  const isReader = random.chance(0.5)
  let serverExpiresAt = expiryMs
  let trustedUntil = trustMs
  let notifiedAt: number | undefined
  let resumedAt = 0
  const trust = make(0, clock)
  trust.onLoss(() => {
    check(notifiedAt === undefined, 'notified twice')
    notifiedAt = clock.now
  })

  const read = () => {
    const hadLost = notifiedAt !== undefined
    const { trusted } = trust
    check(!trusted || clock.now < serverExpiresAt, 'trusted when the server can grant to another')
    check(!trusted || !hadLost, 'trusted again after the loss')
    check(trusted || notifiedAt !== undefined, 'the reader learns of the loss before the listeners')
    check(trusted || clock.now >= trustedUntil, 'lost before the deadline')
  }
  const watch = () => {
    if (isReader) read()
    const latest = Math.max(trustedUntil, resumedAt) + 2 * maxTimerDelayMs
    check(notifiedAt !== undefined || clock.now <= latest, 'the listeners are not notified')
  }
  const send = () => {
    const sentAt = clock.now
    const executedAt = sentAt + random.below(200)
    clock.plan(executedAt - sentAt + random.below(random.chance(0.2) ? expiryMs * 2 : 200), () => {
      // The server refuses what it executes after its expiry.
      if (executedAt >= serverExpiresAt) return
      serverExpiresAt = Math.max(serverExpiresAt, executedAt + expiryMs)
      const wasLost = notifiedAt !== undefined || clock.now >= trustedUntil
      const isInTime = trust.answer(sentAt)
      check(isInTime !== wasLost, 'a response counts exactly when it is in time')
      if (!wasLost) trustedUntil = Math.max(trustedUntil, sentAt + trustMs)
    })
  }
  for (let step = 0; step < 30; step++) {
    if (random.chance(0.8)) send()
    if (random.chance(0.15)) {
      clock.freeze(random.below(expiryMs * 2), random, random.chance(0.5) ? read : () => {})
      resumedAt = clock.now
    } else clock.run(random.below(400), watch)
  }
  clock.run(expiryMs * 4, watch)
  check(notifiedAt !== undefined, 'the loss is never noticed')
  vi.restoreAllMocks()
  return [...violations]
}

afterEach(() => {
  vi.restoreAllMocks()
})

test('the client gives up its trust before the server can grant to anyone else, also after a freeze', () => {
  const seed = seedOf('trust deadline')
  for (let n = 0; n < countOf(2_000); n++) {
    const violations = walk(seed + n, (sentAt) => new Trust(sentAt))
    expect(violations, `seed ${seed + n}`).toEqual([])
  }
})

class CountsFromTheResponse extends Trust {
  override answer(): boolean {
    return super.answer(performance.now())
  }
}

class WaitsForTheTimer extends Trust {
  #isLost = false
  readonly #clock: Clock

  constructor(sentAt: number, clock: Clock) {
    super(sentAt)
    this.#clock = clock
    this.onLoss(() => {
      this.#isLost = true
    })
  }

  override get trusted(): boolean {
    return this.#clock.isInTimer ? super.trusted : !this.#isLost
  }
}

class ComesBack extends Trust {
  #until = 0

  override get trusted(): boolean {
    return super.trusted || performance.now() < this.#until
  }

  override answer(sentAt: number): boolean {
    this.#until = sentAt + trustMs
    return super.answer(sentAt)
  }
}

class HasNoTimer extends Trust {
  protected override watchDeadline(): void {}
}

class HasNoMargin extends Trust {
  protected override answered(sentAt: number): boolean {
    return super.answered(sentAt, expiryMs + 300)
  }
}

test.each([
  { Buggy: CountsFromTheResponse, rule: 'trusted when the server can grant to another' },
  { Buggy: WaitsForTheTimer, rule: 'trusted when the server can grant to another' },
  { Buggy: HasNoMargin, rule: 'trusted when the server can grant to another' },
  { Buggy: ComesBack, rule: 'trusted again after the loss' },
  { Buggy: HasNoTimer, rule: 'the listeners are not notified' },
])('the random walk finds the planted bug $Buggy.name', ({ Buggy, rule }) => {
  const seed = seedOf(`trust deadline, ${Buggy.name}`)
  const found = Array.from({ length: 200 }, (_, n) => walk(seed + n, (sentAt, clock) => new Buggy(sentAt, clock)))
  expect(found.flat()).toContain(rule)
})

test('an ended deadline is not trusted and notifies no listener', () => {
  const clock = new Clock(randomFrom(1))
  const trust = new Trust(0)
  const listener = vi.fn()
  trust.onLoss(listener)
  trust.end()
  clock.run(expiryMs * 3, () => {})
  trust.lose(new Lost('after the end'))
  expect(trust.trusted).toBe(false)
  expect(trust.loss).toBeUndefined()
  expect(trust.answer(clock.now)).toBe(false)
  expect(listener).not.toHaveBeenCalled()
})

test('the first reason of a loss is kept, and a removed listener is not called', () => {
  new Clock(randomFrom(1))
  const trust = new Trust(0)
  const [listener, removed] = [vi.fn(), vi.fn()]
  trust.onLoss(listener)
  trust.onLoss(removed)()
  const reason = new Lost('cut')
  trust.lose(reason)
  trust.lose(new Lost('later'))
  expect(trust.loss).toBe(reason)
  expect(listener.mock.calls).toEqual([[reason]])
  expect(removed).not.toHaveBeenCalled()
})
