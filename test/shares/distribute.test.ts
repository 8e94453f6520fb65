// Tests the division as a pure function: it is even, it does not depend on the order of its arguments, and few resources move.
import { expect, test } from 'vitest'
import { distribute } from '../../src/shares/distribute.js'
import { randomFrom, randomName, seed } from '../setup/random.js'

const owners = (division: Map<string, string[]>) =>
  new Map([...division].flatMap(([member, resources]) => resources.map((resource) => [resource, member] as const)))

function countMoved(before: Map<string, string[]>, after: Map<string, string[]>): number {
  const [from, to] = [owners(before), owners(after)]
  return [...from].filter(([resource, member]) => to.get(resource) !== member).length
}

const numbered = (what: string, count: number) => Array.from({ length: count }, (_, i) => `${what}${i}`)

const given = seed()

test(`distribute gives each resource one owner and no member more than the ceiling, independently of the order (seed ${given})`, () => {
  const random = randomFrom(given)
  for (let round = 0; round < 200; round++) {
    const members = [...new Set(Array.from({ length: 1 + Math.floor(random() * 12) }, () => randomName(random, 12)))]
    const resources = [...new Set(Array.from({ length: Math.floor(random() * 120) }, () => randomName(random)))]
    const division = distribute(members, resources)
    expect([...division.keys()].sort()).toEqual([...members].sort())
    expect([...division.values()].flat().sort()).toEqual([...resources].sort())
    const largest = Math.max(...[...division.values()].map((part) => part.length))
    expect(largest).toBeLessThanOrEqual(Math.ceil(resources.length / members.length))
    const shuffled = (list: string[]) => [...list].sort(() => random() - 0.5)
    expect(distribute(shuffled(members), shuffled(resources))).toEqual(division)
  }
})

test('few resources move when a member joins or leaves', () => {
  const lines: string[] = []
  for (const [resourceCount, memberCount] of [
    [1_000, 3],
    [1_000, 10],
    [1_000, 30],
    [100, 4],
  ] as const) {
    const resources = numbered('resource ', resourceCount)
    let [joined, left] = [0, 0]
    const times = 30
    for (let time = 0; time < times; time++) {
      const members = numbered(`${given} ${time} member `, memberCount + 1)
      const [more, fewer] = [distribute(members, resources), distribute(members.slice(1), resources)]
      joined += countMoved(fewer, more)
      left += countMoved(more, fewer)
    }
    // The share of one member. At least this number of resources must move when a member joins or leaves.
    const minimum = (resourceCount / (memberCount + 1)) * times
    lines.push(
      `${resourceCount} resources, ${memberCount} members and one more: moved ${(joined / minimum).toFixed(2)} times the minimum when it joins, ${(left / minimum).toFixed(2)} times when it leaves`,
    )
    expect(joined / minimum).toBeLessThan(2)
    expect(left / minimum).toBeLessThan(2)
  }
  console.log(lines.join('\n'))
})

test('a resource moves only to the new member if there are more members than resources', () => {
  // With one resource and many members, a newcomer takes the resource only if it has the highest score for it.
  const members = numbered('m', 50)
  const before = distribute(members, ['a'])
  const after = distribute([...members, 'newcomer'], ['a'])
  const owner = owners(after).get('a')
  expect([owners(before).get('a'), 'newcomer']).toContain(owner)
})

test('distribute accepts no members, no resources and duplicate names', () => {
  expect(distribute([], ['a'])).toEqual(new Map())
  expect(distribute(['m'], [])).toEqual(new Map([['m', []]]))
  expect(distribute(['m', 'm'], ['b', 'a', 'b'])).toEqual(new Map([['m', ['a', 'b']]]))
})

test('distribute divides 10,000 resources among 100 members in less than five seconds', () => {
  const from = performance.now()
  distribute(numbered('m', 100), numbered('r', 10_000))
  const tookMs = performance.now() - from
  console.log(`10,000 resources among 100 members: ${tookMs.toFixed(0)} ms`)
  expect(tookMs).toBeLessThan(5_000)
})
