import { expect, test } from 'vitest'
import { LogBuffer } from '../../src/base/index.js'

function lineOf(text: unknown, data?: unknown) {
  const buffer = new LogBuffer()
  buffer.add(1, text, data)
  return buffer.take()[0]!
}

test('a line has a time, its attempt, its number and its data', () => {
  const buffer = new LogBuffer()
  buffer.add(2, 'first', { part: 1 })
  expect(buffer.take()).toEqual([
    { at: expect.stringMatching(/^\d{4}-.*Z$/), attempt: 2, number: 1, text: 'first', data: { part: 1 } },
  ])
  buffer.add(2, 'second', undefined)
  expect(buffer.take()).toEqual([{ at: expect.any(String), attempt: 2, number: 2, text: 'second' }])
  expect(buffer.take()).toEqual([])
})

test('a buffer keeps the last 100 lines, and the numbers show that lines are missing', () => {
  const buffer = new LogBuffer()
  for (let at = 1; at <= 1_234; at++) buffer.add(1, `line ${at}`, undefined)
  const lines = buffer.take()
  expect(lines).toHaveLength(100)
  expect(lines[0]).toMatchObject({ number: 1_135, text: 'line 1135' })
})

test('data that JSON cannot represent never fails the handler', () => {
  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  const hostile = {
    get boom() {
      throw new Error('getter')
    },
  }
  expect(lineOf('x'.repeat(5_000)).text).toHaveLength(2_000)
  expect(lineOf(Symbol('s')).text).toBe('Symbol(s)')
  expect(lineOf('error', { error: new TypeError('broken') }).data).toEqual({ error: 'TypeError: broken' })
  expect(lineOf('numbers', { big: 5n, at: new Date(0) }).data).toEqual({ big: '5', at: '1970-01-01T00:00:00.000Z' })
  expect(lineOf('zero', 'a\0b').data).toBe('a\uFFFDb')
  expect(lineOf('cycle', cycle).data).toMatch(/^not stored: TypeError: /)
  expect(lineOf('hostile', hostile).data).toBe('not stored: Error: getter')
  expect(lineOf('many', Array.from({ length: 1e6 })).data).toBe('not stored: RangeError: more than 2000 parts')
  expect(lineOf('large', ['x'.repeat(1_500), 'y'.repeat(1_500)]).data).toBe(
    'not stored: 3007 bytes of JSON, at most 2000',
  )
})

test('a line contains no text that PostgreSQL rejects, also in keys and at the cut', () => {
  expect(lineOf(`${'x'.repeat(1_999)}😀`).text).toBe(`${'x'.repeat(1_999)}\uFFFD`)
  expect(lineOf('keys', { 'a\0b': { 'c\ud800': 1 } }).data).toEqual({ 'a\uFFFDb': { 'c\uFFFD': 1 } })
  expect(lineOf('escapes', { 'a\\u0000\n😀\x01': '\\ud800' }).data).toEqual({ 'a\\u0000\n😀\x01': '\\ud800' })
  const hostile = {
    get boom() {
      throw new Error(`${'x'.repeat(192)}😀`)
    },
  }
  expect((lineOf('hostile', hostile).data as string).isWellFormed()).toBe(true)
})
