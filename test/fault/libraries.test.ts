import { describe, expect, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { untilMember, untilRuns } from '../schedules/fixture.js'
import { sql, until } from '../setup/facts.js'
import { runsAll, waysOf } from '../setup/variants.js'
import { effectTable, libraries } from '../stacks/libraries.js'
import { Child } from './children.js'
import { expiryMs, openDatabase, openInstance } from './fixture.js'
import type { Message, Options } from './libraries-worker.js'

// A process is killed or frozen during the transactions of a library. The effect of each handler happens exactly once.

const kinds = ['job', 'once', 'schedule']

/** Starts the process, and waits until its job, its schedule run and its key have reached the stage. */
async function createFixture(options: Omit<Options, 'url'>) {
  const { url } = await openDatabase()
  await sql(url, effectTable)
  const holdfast = await openInstance(url)
  const child = new Child<Message>('./libraries-worker.ts', { url, ...options })
  const job = defineJob('job', {
    run: async (_: null, { tx }) => {
      await tx.query("insert into effect (name) values ('job by the other')")
      return 'by the other'
    },
  })
  const { id } = await holdfast.jobs.enqueue(job, null)
  await child.first('it has opened its instance')
  await until('the process is a member', async () => (await holdfast.schedules.find('schedule'))?.members.length === 1)
  await holdfast.schedules.run('schedule')
  const countOf = (message: Message) => child.messages.filter((one) => one === message).length
  await until('all three transactions have reached the stage', () => countOf('reached') === 3)
  const effects = async () =>
    (await sql<{ name: string }>(url, 'select name from effect order by name')).map(({ name }) => name)

  /** Takes the work of the process over, or finds that it has ended. Returns who has done it. */
  async function takeOver(other: Holdfast): Promise<unknown> {
    other.jobs.work([job])
    other.schedules.add('schedule', { every: '1d' }, ({ tx }) =>
      tx.query("insert into effect (name) values ('schedule by the other')"),
    )
    await untilMember(other, 'schedule')
    const once = await other.once.run('once', { wait: '20s' }, async ({ tx }) => {
      await tx.query("insert into effect (name) values ('once by the other')")
      return 'by the other'
    })
    const [run] = await untilRuns(other, 'schedule', ['done'])
    expect(run).toMatchObject({ attempt: once.status === 'replayed' ? 1 : 2 })
    return [await other.jobs.result(id, { wait: '20s' }), 'value' in once && once.value]
  }
  return { holdfast, child, countOf, effects, takeOver }
}

describe.each(waysOf(Object.keys(libraries)))('with %s', (library) => {
  test.each(waysOf(['effect', 'recorded']))(
    'the handlers of a process that is killed at the stage "%s" have their effect elsewhere',
    { timeout: 60_000 },
    async (stage) => {
      // The takeover must not wait for the expiry.
      const { holdfast, child, effects, takeOver } = await createFixture({ library, stage, expiryMs: 60_000 })
      expect(await effects()).toEqual([])
      child.kill()
      expect(await takeOver(holdfast)).toEqual(['by the other', 'by the other'])
      expect(await effects()).toEqual(kinds.map((kind) => `${kind} by the other`))
    },
  )

  test.skipIf(!runsAll)(
    'the handlers of a process that is killed after the commit do not run again',
    { timeout: 60_000 },
    async () => {
      const { holdfast, child, effects, takeOver } = await createFixture({
        library,
        stage: 'committed',
        expiryMs: 60_000,
      })
      child.kill()
      expect(await takeOver(holdfast)).toEqual(['by the worker', 'by the worker'])
      expect(await effects()).toEqual(kinds.map((kind) => `${kind} by the worker`))
    },
  )

  test.each(runsAll ? (['recorded', 'effect'] as const) : [])(
    'the handlers of a process that is frozen at the stage "%s" have their effect elsewhere after the expiry',
    { timeout: 60_000 },
    async (stage) => {
      const { holdfast, child, countOf, effects, takeOver } = await createFixture({ library, stage, expiryMs })
      child.process.kill('SIGSTOP')
      expect(await takeOver(holdfast)).toEqual(['by the other', 'by the other'])
      child.process.kill('SIGCONT')
      child.send('continue')
      await until('the late transactions have ended', () => countOf('ended') >= 3)
      expect(await effects()).toEqual(kinds.map((kind) => `${kind} by the other`))
    },
  )
})
