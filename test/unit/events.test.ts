import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { checkSubscription, Events, eventNames, UsageError } from '../../src/base/index.js'

test('a listener receives each event once per subscription until it unsubscribes', () => {
  const events = new Events()
  const received: string[] = []
  const listener = ({ key }: { key: string }) => received.push(key)
  const stops = [events.on('delivery.replayed', listener), events.on('delivery.replayed', listener)]
  events.emitter('delivery.replayed')?.({ key: 'a' })
  stops[0]!()
  stops[0]!()
  events.emitter('delivery.replayed')?.({ key: 'b' })
  stops[1]!()
  expect(events.emitter('delivery.replayed')).toBeUndefined()
  expect(received).toEqual(['a', 'a', 'b'])
})

test('the other listeners receive an event if one listener throws, unsubscribes or subscribes another during the event', async () => {
  const events = new Events()
  const received: string[] = []
  events.on('delivery.replayed', () => {
    throw new Error('not mine')
  })
  events.on('delivery.replayed', async () => {
    throw new Error('nor later')
  })
  events.on('delivery.replayed', () => runInNewContext('Promise.reject(new Error("nor in another realm"))'))
  const stop = events.on('delivery.replayed', () => {
    stop()
    received.push('leaves')
    events.on('delivery.replayed', () => received.push('came'))
  })
  events.on('delivery.replayed', () => received.push('stays'))
  events.emitter('delivery.replayed')?.({ key: 'a' })
  expect(received).toEqual(['leaves', 'stays'])
  events.emitter('delivery.replayed')?.({ key: 'b' })
  expect(received).toEqual(['leaves', 'stays', 'stays', 'came'])
  // An unhandled rejection would fail this test run.
  await new Promise((resolve) => setImmediate(resolve))
})

test('an event without a listener is not built, and emitter is faster than with a listener', () => {
  const events = new Events()
  let built = 0
  const facts = () => {
    built++
    return { key: 'k' }
  }
  const round = () => {
    const from = performance.now()
    for (let n = 0; n < 300_000; n++) events.emitter('delivery.replayed')?.(facts())
    return performance.now() - from
  }
  const fastest = () => Math.min(round(), round(), round(), round())
  round()
  const withoutListener = fastest()
  expect(built).toBe(0)
  events.on('delivery.replayed', () => {})
  round()
  const withListener = fastest()
  expect(built).toBe(300_000 * 5)
  expect(withoutListener).toBeLessThan(withListener)
})

test('checkSubscription refuses an unknown event and a listener that is not a function', () => {
  expect(eventNames).toContain('job.failed')
  const check = (name: unknown, listener: unknown) => () => checkSubscription(name, listener)
  expect(check('job.failed', () => {})).not.toThrow()
  expect(check('job.faild', () => {})).toThrow(UsageError)
  expect(check('job.faild', () => {})).toThrow('Expected the name of an event, got "job.faild" (string)')
  expect(check('toString', () => {})).toThrow('Expected the name of an event')
  expect(check('job.failed', undefined)).toThrow('Expected the listener to be a function, got undefined')
})

test('the name of every event is a noun and a past participle', () => {
  const nouns =
    /^(instance|lock|lease|limit|rate|election|delivery|share|schedule|scheduler|job|worker)\.([a-z]+-)?([a-z]+ed|lost|done|taken)$/
  expect(eventNames.length).toBeGreaterThan(40)
  expect(eventNames.filter((name) => !nouns.test(name))).toEqual([])
})
