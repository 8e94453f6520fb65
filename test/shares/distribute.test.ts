// The division as a pure function: even, the same for everybody, and few resources move.
import { expect, test } from 'vitest'
import { distribute } from '../../src/shares/distribute.js'
import { randomFrom, randomName, seed } from '../setup/random.js'

const owners = (division: Map<string, string[]>) =>
  new Map([...division].flatMap(([member, resources]) => resources.map((resource) => [resource, member] as const)))

function moved(before: Map<string, string[]>, after: Map<string, string[]>): number {
  const [from, to] = [owners(before), owners(after)]
  return [...from].filter(([resource, member]) => to.get(resource) !== member).length
}

const numbered = (what: string, count: number) => Array.from({ length: count }, (_, i) => `${what}${i}`)

const given = seed()

test(`everything has one owner, nobody more than the ceiling, whatever the order (seed ${given})`, () => {
  const random = randomFrom(given)
  for (let round = 0; round < 200; round++) {
    const members = [...new Set(Array.from({ length: 1 + Math.floor(random() * 12) }, () => randomName(random, 12)))]
    const resources = [...new Set(Array.from({ length: Math.floor(random() * 120) }, () => randomName(random)))]
    const division = distribute(members, resources)
    expect([...division.keys()].sort()).toEqual([...members].sort())
    expect([...division.values()].flat().sort()).toEqual([...resources].sort())
    const most = Math.max(...[...division.values()].map((part) => part.length))
    expect(most).toBeLessThanOrEqual(Math.ceil(resources.length / members.length))
    const shuffled = (list: string[]) => [...list].sort(() => random() - 0.5)
    expect(distribute(shuffled(members), shuffled(resources))).toEqual(division)
  }
})

test('few resources move when a member comes or goes', () => {
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
      joined += moved(fewer, more)
      left += moved(more, fewer)
    }
    // The part of one among them: nobody can give a newcomer its part, or take over that of one who left, with less.
    const least = (resourceCount / (memberCount + 1)) * times
    lines.push(
      `${resourceCount} resources, ${memberCount} members and one more: moved ${(joined / least).toFixed(2)} times the least when it joins, ${(left / least).toFixed(2)} when it leaves`,
    )
    expect(joined / least).toBeLessThan(2)
    expect(left / least).toBeLessThan(2)
  }
  console.log(lines.join('\n'))
})

test('with room to spare only what is its own moves', () => {
  // One resource for each of many members: a newcomer takes at most what it scores highest for, and what that pushes on.
  const members = numbered('m', 50)
  const before = distribute(members, ['a'])
  const after = distribute([...members, 'newcomer'], ['a'])
  const owner = owners(after).get('a')
  expect([owners(before).get('a'), 'newcomer']).toContain(owner)
})

test('nobody, nothing, and names given twice', () => {
  expect(distribute([], ['a'])).toEqual(new Map())
  expect(distribute(['m'], [])).toEqual(new Map([['m', []]]))
  expect(distribute(['m', 'm'], ['b', 'a', 'b'])).toEqual(new Map([['m', ['a', 'b']]]))
})

test('ten thousand resources among a hundred members take no time', () => {
  const from = performance.now()
  distribute(numbered('m', 100), numbered('r', 10_000))
  const tookMs = performance.now() - from
  console.log(`10,000 resources among 100 members: ${tookMs.toFixed(0)} ms`)
  expect(tookMs).toBeLessThan(5_000)
})
