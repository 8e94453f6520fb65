import pg from 'pg'
import { expect, test } from 'vitest'
import { sqlPool } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { effect, makeEffects } from './effects.js'

test('a call sends two messages for a new key, one for a replay, and with tx four and those of the function', async () => {
  const url = await databaseUrl()
  await makeEffects(url)
  const sent: string[] = []
  class RecordingClient extends pg.Client {
    // biome-ignore lint/suspicious/noExplicitAny: all the forms of query
    override query(...args: any[]): any {
      const [first] = args
      const text: string = typeof first === 'string' ? first : first.text
      // Expired rows are removed at a random moment.
      if (!text.includes('expired as')) sent.push(text)
      return (super.query as (...args: unknown[]) => unknown).apply(this, args)
    }
  }
  const { once } = await open({ pool: sqlPool({ connectionString: url, Client: RecordingClient }) })
  const sentBy = async (work: () => Promise<unknown>) => {
    sent.length = 0
    await work()
    return sent.map((text) => /^begin|^commit|claim_delivery|finish_delivery|effect/.exec(text)?.[0] ?? text)
  }
  expect(await sentBy(() => once.run('new', () => 1))).toEqual(['claim_delivery', 'finish_delivery'])
  expect(await sentBy(() => once.run('new', () => 2))).toEqual(['claim_delivery'])
  expect(await sentBy(() => once.run('tx', async ({ tx }) => void (await effect(tx, 'tx'))))).toEqual([
    'claim_delivery',
    'begin',
    'effect',
    'finish_delivery',
    'commit',
  ])
})
