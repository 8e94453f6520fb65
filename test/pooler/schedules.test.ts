// Tests schedules behind PgBouncer in transaction mode, with a direct anchor and without an anchor.
import { describe, expect, test } from 'vitest'
import { countEffects, effect, makeEffects } from '../once/effects.js'
import { add, stopped, unproven, untilMember, untilRuns } from '../schedules/fixture.js'
import { until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { startPooler, withoutPgBouncer } from './pgbouncer.js'

describe.skipIf(withoutPgBouncer)('schedules behind PgBouncer in transaction mode', () => {
  test.each(['required', 'none'] as const)(
    'each tick runs once, also after a handover, with anchor: %s',
    async (anchor) => {
      const direct = await databaseUrl()
      await makeEffects(direct)
      const pooler = await startPooler({ mode: 'transaction', backends: 12, roundRobin: true })
      const options = { url: pooler.through(direct), anchor, expiry: '2s', namespace: 'pooled' } as const
      const directUrl = anchor === 'required' ? direct : undefined
      const [one, other] = [await open({ ...options, directUrl }), await open({ ...options, directUrl })]
      for (const holdfast of [one, other]) {
        add(holdfast, 'ticks', { every: '1s' }, ({ tx, tick }) => effect(tx, tick.toISOString()))
        await untilMember(holdfast, 'ticks')
      }
      await untilRuns(one, 'ticks', ['done'], 3)

      // The first instance closes its schedule during a run. The other instance runs the tick again.
      const started: string[] = []
      const schedules = await Promise.all(
        [one, other].map(async (holdfast) => {
          const schedule = add(holdfast, 'handed over', { every: '365d' }, ({ attempt, signal }) => {
            started.push(`attempt ${attempt} in ${holdfast.id}`)
            return attempt === 1 ? stopped(signal) : undefined
          })
          await untilMember(holdfast, 'handed over')
          return schedule
        }),
      )
      await other.schedules.run('handed over')
      await until('the tick runs', () => started.length === 1)
      const at = started[0] === `attempt 1 in ${one.id}` ? 0 : 1
      expect(await other.schedules.runs('handed over')).toMatchObject([{ state: 'running' }])
      await schedules[at]!.close({ within: 1 })
      await untilRuns(other, 'handed over', ['done'])
      expect(started[1]).toBe(`attempt 2 in ${[other, one][at]!.id}`)

      await one.schedules.pause('ticks')
      for (const { state, tick } of await untilRuns(one, 'ticks', ['done'], 3)) {
        expect({ state, effects: await countEffects(direct, tick.toISOString()) }).toEqual({
          state: 'done',
          effects: 1,
        })
      }
      expect(await unproven(direct, 'ticks', 1_000)).toEqual([])
    },
  )
})
