import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { checkSubscription, Events, eventNames, UsageError } from '../../src/base/index.js'

test('listeners are told, each as often as it subscribed, until they leave', () => {
  const events = new Events()
  const told: string[] = []
  const listener = ({ key }: { key: string }) => told.push(key)
  const stops = [events.on('once.replayed', listener), events.on('once.replayed', listener)]
  events.emitter('once.replayed')?.({ key: 'a' })
  stops[0]!()
  stops[0]!()
  events.emitter('once.replayed')?.({ key: 'b' })
  stops[1]!()
  expect(events.emitter('once.replayed')).toBeUndefined()
  expect(told).toEqual(['a', 'a', 'b'])
})

test('a listener that throws, or leaves, or comes meanwhile keeps nobody from being told', async () => {
  const events = new Events()
  const told: string[] = []
  events.on('once.replayed', () => {
    throw new Error('not mine')
  })
  events.on('once.replayed', async () => {
    throw new Error('nor later')
  })
  events.on('once.replayed', () => runInNewContext('Promise.reject(new Error("nor in another realm"))'))
  const stop = events.on('once.replayed', () => {
    stop()
    told.push('leaves')
    events.on('once.replayed', () => told.push('came'))
  })
  events.on('once.replayed', () => told.push('stays'))
  events.emitter('once.replayed')?.({ key: 'a' })
  expect(told).toEqual(['leaves', 'stays'])
  events.emitter('once.replayed')?.({ key: 'b' })
  expect(told).toEqual(['leaves', 'stays', 'stays', 'came'])
  // A rejection that nobody handles would end this run.
  await new Promise((resolve) => setImmediate(resolve))
})

test('without a listener nothing is put together, and a look costs next to nothing', () => {
  const events = new Events()
  let built = 0
  const facts = () => {
    built++
    return { key: 'k' }
  }
  const round = () => {
    const from = performance.now()
    for (let n = 0; n < 300_000; n++) events.emitter('once.replayed')?.(facts())
    return performance.now() - from
  }
  const fastest = () => Math.min(round(), round(), round(), round())
  round()
  const silent = fastest()
  expect(built).toBe(0)
  events.on('once.replayed', () => {})
  round()
  const heard = fastest()
  expect(built).toBe(300_000 * 5)
  expect(silent).toBeLessThan(heard)
})

test('mistakes are told, and what was meant', () => {
  expect(eventNames).toContain('job.failed')
  const ask = (name: unknown, listener: unknown) => () => checkSubscription(name, listener)
  expect(ask('job.failed', () => {})).not.toThrow()
  expect(ask('job.faild', () => {})).toThrow(UsageError)
  expect(ask('job.faild', () => {})).toThrow('Expected the name of an event, got "job.faild" (string)')
  expect(ask('toString', () => {})).toThrow('Expected the name of an event')
  expect(ask('job.failed', undefined)).toThrow('Expected the listener to be a function, got undefined')
})
