// `ready()` of a worker, a campaign, an assignment and a schedule: the same promise for each of them.
import { describe, expect, test } from 'vitest'
import { ClosedError, defineJob, Holdfast, PermissionError } from '../../src/index.js'
import { caught, sql, stays, until } from '../setup/facts.js'
import { databaseUrl, open, roleUrl } from '../setup/instances.js'

interface Taking {
  ready(): Promise<void>
  close(): Promise<void>
}

const idle = defineJob('idle', { run: () => {} })
const elsewhere = defineJob('elsewhere', { queue: 'elsewhere', run: () => {} })
const parts: Record<string, (holdfast: Holdfast) => Taking> = {
  worker: ({ jobs }) => jobs.work([idle]),
  campaign: ({ elections }) => elections.campaign('leader', untilAborted),
  assignment: ({ shares }) => shares.assign('share', ['a', 'b'], (_, owned) => untilAborted(owned)),
  'assignment with a function': ({ shares }) =>
    shares.assign(
      'share',
      async () => ['a', 'b'],
      (_, owned) => untilAborted(owned),
    ),
  schedule: ({ schedules }) => schedules.add('nightly', { cron: '0 3 * * *' }, () => {}),
}

/** Table without which an instance cannot take part. */
const tableOf: Record<string, string> = {
  worker: 'holdfast.worker',
  campaign: 'holdfast.lease',
  assignment: 'holdfast.share_member',
  'assignment with a function': 'holdfast.share_member',
  schedule: 'holdfast.schedule',
}

function untilAborted({ signal }: { signal: AbortSignal }): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

const modes = (['required', 'none'] as const).flatMap((anchor) =>
  Object.keys(parts).map((part) => [part, anchor] as const),
)

describe.each(modes)('the %s (anchor: %s)', (part, anchor) => {
  const start = (holdfast: Holdfast) => parts[part]!(holdfast)

  test('is ready once it takes part, and stays ready', async () => {
    const taking = start(await open({ url: await databaseUrl(), anchor }))
    await taking.ready()
    await taking.ready()
    await taking.close()
  })

  test('rejects with the error if an attempt fails, and resolves after the cause is gone', async () => {
    const url = await databaseUrl()
    const { url: ours, role } = await roleUrl(url, 'superuser')
    const holdfast = await open({ url: ours, anchor })
    // Makes the instance present, so that the missing right affects only what takes part.
    await holdfast.jobs.work([elsewhere]).ready()
    await sql(
      url,
      `alter role ${role} nosuperuser;
       grant usage on schema holdfast to ${role};
       grant all on all tables in schema holdfast to ${role};
       grant all on all sequences in schema holdfast to ${role};
       revoke all on ${tableOf[part]} from ${role}`,
    )
    const taking = start(holdfast)
    await caught(PermissionError, taking.ready())
    await sql(url, `alter role ${role} superuser`)
    await until('it is ready', () =>
      taking.ready().then(
        () => true,
        () => false,
      ),
    )
    await taking.ready()
    await taking.close()
  })

  test('rejects when it is closed before it takes part, and afterwards', async () => {
    const holdfast = await open({ url: await databaseUrl(), anchor })
    const taking = start(holdfast)
    const ready = taking.ready().then(
      () => undefined,
      (error) => error,
    )
    await taking.close()
    const error = await ready
    expect(error === undefined || error instanceof ClosedError).toBe(true)
    await caught(ClosedError, taking.ready())
  })

  test('rejects when the instance closes', async () => {
    const holdfast = await Holdfast.open({ url: await databaseUrl(), anchor, log: false })
    const taking = start(holdfast)
    await holdfast.close()
    await caught(ClosedError, taking.ready())
  })
})

test('a campaign is ready as a candidate while another instance leads', async () => {
  const url = await databaseUrl()
  const [leader, candidate] = [await open({ url }), await open({ url })]
  const first = leader.elections.campaign('leader', untilAborted)
  await first.ready()
  await until('the first instance leads', () => first.leads)
  const second = candidate.elections.campaign('leader', untilAborted)
  await second.ready()
  expect(second.leads).toBe(false)
})

test('a campaign is not ready while `eligible` returns false, and rejects if `eligible` throws', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  let answer: () => boolean = () => false
  const campaign = holdfast.elections.campaign('leader', { eligible: () => answer() }, untilAborted)
  let isReady = false
  const ready = campaign.ready().then(() => {
    isReady = true
  })
  ready.catch(() => {})
  await stays('the campaign is not ready', () => !isReady, 300)
  const failure = new Error('no configuration')
  answer = () => {
    throw failure
  }
  expect(await ready.catch((error) => error)).toBe(failure)
  answer = () => true
  await campaign.ready()
})

test('an assignment rejects with the error of the function that lists the resources', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const failure = new Error('no list')
  let list: () => string[] = () => {
    throw failure
  }
  const assignment = holdfast.shares.assign(
    'share',
    () => list(),
    (_, owned) => untilAborted(owned),
  )
  expect(await assignment.ready().catch((error) => error)).toBe(failure)
  list = () => ['a']
  await assignment.ready()
  expect(assignment.owned).toEqual(['a'])
})

test('an assignment is ready when it has tried its resources, although another holder has one of them', async () => {
  const url = await databaseUrl()
  const [holdfast, other] = [await open({ url }), await open({ url })]
  const held = await other.locks.acquire('share/share/a')
  const assignment = holdfast.shares.assign('share', ['a', 'b'], (_, owned) => untilAborted(owned))
  await assignment.ready()
  expect(assignment.owned).toEqual(['b'])
  await held.release()
  await until('both are owned', () => assignment.owned.length === 2)
})

test('waiting for a schedule by name ends when the schedule is closed', async () => {
  const { schedules } = await open({ url: await databaseUrl() })
  const schedule = schedules.add('nightly', { cron: '0 3 * * *' }, () => {})
  const finding = schedules.find('nightly')
  await schedule.close()
  await finding
})
