import { expect, test } from 'vitest'
import { waitGraphView } from '../../src/dashboard/waits.js'
import { buildGraph, type ContendedName, type Participant } from '../../src/observe/index.js'

const facts = { mode: 'exclusive', pid: null, job: null, weight: 1, since: null, forMs: 5_000, freeInMs: null } as const

function name(label: string, by: string, waits: readonly string[]): ContendedName {
  return {
    ...{ id: label, kind: 'lock', key: label, namespace: 'shop', label, queue: null, max: null, inUse: null },
    holders: [{ ...facts, participant: by, how: 'lock' }],
    waits: waits.map((participant) => ({ ...facts, participant, requests: 1, behind: null, calls: [] })),
    waiting: waits.length,
  }
}

function pictureFrom(...names: ContendedName[]) {
  const ids = new Set(names.flatMap(({ holders, waits }) => [...holders, ...waits].map((one) => one.participant)))
  const participants = [...ids].map(
    (id): Participant => ({
      ...{ id, kind: 'instance', instance: id, instanceName: id, host: 'web', osPid: 1 },
      ...{ pids: [], application: null, user: null, job: null },
    }),
  )
  return waitGraphView(buildGraph(names, participants))
}

test('a system without waits has an empty picture', () => {
  expect(waitGraphView()).toEqual(waitGraphView(buildGraph([], [])))
  expect(waitGraphView()).toMatchObject({ calls: 0, names: [], roots: [], isPartial: false })
})

test('the participant that blocks most comes first, with its remedies, the mildest first', () => {
  const { roots, names, tree } = pictureFrom(name('x', 'a', ['b']), name('y', 'c', ['d']), name('z', 'd', ['e', 'f']))
  expect(roots).toEqual([
    { participant: 'c', blocks: 3 },
    { participant: 'a', blocks: 1 },
  ])
  expect(names[0]!.holders[0]!.remedies.map(({ action }) => action)).toEqual(['release', 'break'])
  expect(
    tree.map(({ depth, participant, has, name }) => `${depth} ${participant} ${has ? 'has' : 'for'} ${name}`),
  ).toEqual(expect.arrayContaining(['0 c for null', '1 c has y', '2 d for y', '3 d has z', '4 e for z', '4 f for z']))
})

test('many waits of one participant are combined, and of very many waits the important ones are kept', () => {
  const many = Array.from({ length: 500 }, (_, at) => `w${at}`)
  const hot = name('hot', 'a', [...many, 'b'])
  const { calls, names, roots, isPartial, participants } = pictureFrom(
    hot,
    name('cold', 'b', ['c']),
    name('gpu', 'd', ['e', 'e', 'e']),
  )
  expect(calls).toBe(505)
  expect(isPartial).toBe(true)
  expect(participants.length).toBeLessThan(40)
  const [first] = names
  expect(first!.waits.map(({ participant }) => participant)).toContain('b')
  expect(first!.waiting).toBe(501)
  expect(roots[0]!.participant).toBe('a')
  expect(names.find(({ id }) => id === 'gpu')!.waits).toMatchObject([{ participant: 'e', requests: 3 }])
})
