import { expect, test } from 'vitest'
import type { Claim } from '../../src/jobs/claims.js'
import { Endings } from '../../src/jobs/endings.js'
import { FollowUps } from '../../src/jobs/follow-ups.js'
import { gate } from '../jobs/fixture.js'
import { within } from '../setup/facts.js'

/** Resolves after `turns` microtasks. */
async function microtasks(turns: number): Promise<void> {
  for (let n = 0; n < turns; n++) await undefined
}

// The loop finds its queue empty. Then a job ends. Then the loop ends. No later event would start the loop again.
test.each([0, 1, 2, 3, 4, 5, 6])(
  'a job that ends %i microtasks after the last record is recorded too',
  async (turns) => {
    const store = { run: async () => [{ recorded: [1], follow_ups: null }] }
    const claim = { fence: 1, unended: 10 } as Claim
    let isFirst = true
    const wakeup = {
      signalRoom() {
        if (isFirst) void microtasks(turns).then(() => endings.done({ id: 2, claim }, undefined))
        isFirst = false
      },
    }
    const endings = new Endings({ store, followUps: { add() {} } } as never, AbortSignal.any([]), wakeup as never)
    const both = new Promise<void>((resolve) => {
      void endings.whenRecorded(2).then(resolve)
    })
    endings.done({ id: 1, claim }, undefined)
    await within(1_000, 'recording both jobs', both)
    expect(claim.unended).toBe(8)
  },
)

test.each([0, 1, 2, 3, 4, 5, 6])(
  'a follow-up that is added %i microtasks after the last follow-up is run too',
  async (turns) => {
    let isFirst = true
    const both = gate()
    const store = {
      async run(_: string, [numbers]: string[]) {
        if (numbers === '{2}') both.open()
        return [{ moved: 1, due_ms: null }]
      },
    }
    const followUps = new FollowUps(store as never, {} as never, {} as never, () => {
      if (isFirst) void microtasks(turns).then(() => followUps.add('2'))
      isFirst = false
    })
    followUps.add('1')
    await within(1_000, 'running both follow-ups', both.opened)
    await followUps.close()
  },
)
