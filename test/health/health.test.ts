// Checks that health reports failing writes, and workers, campaigns, shares and schedules that do not work.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, onTestFinished, test } from 'vitest'
import { DatabaseError, defineJob, type Health, type HealthReasonCode, type Holdfast } from '../../src/index.js'
import { healthHandler } from '../../src/telemetry/index.js'
import { work } from '../jobs/fixture.js'
import { caught, sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { ownServer } from '../setup/own-server.js'

const untilStatus = (holdfast: Holdfast, status: Health['status'], ...codes: HealthReasonCode[]) =>
  until(`the instance is ${status}`, async () => {
    const health = await holdfast.health()
    return health.status === status && codes.every((code) => health.reasons.some((one) => one.code === code)) && health
  })

/** Returns the status code of the readiness probe. */
const readyStatus = async (holdfast: Holdfast) =>
  (await healthHandler(holdfast)(new Request('http://localhost/ready'))).status

test('an instance whose workers stopped because the schema is too new is degraded and ready', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  work(holdfast, [defineJob('some', { run: () => {} })])
  await untilStatus(holdfast, 'up')
  const [{ known }] = (await sql(url, 'select max(version) as known from holdfast.migration')) as [{ known: number }]
  await sql(
    url,
    `insert into holdfast.migration (version, name, works_from) values (${known + 1}, 'later', ${known + 1})`,
  )
  const { reasons } = await untilStatus(holdfast, 'degraded', 'SCHEMA_TOO_NEW')
  expect(reasons[0]!.message).toContain(
    `is at version ${known + 1}, but this version of Holdfast supports only schema versions up to ${known}`,
  )
  expect(await readyStatus(holdfast)).toBe(200)
  await sql(url, `delete from holdfast.migration where version = ${known + 1}`)
  await untilStatus(holdfast, 'up')
})

test('an instance whose worker lacks a privilege is degraded until the privilege is granted again', async () => {
  const url = await databaseUrl()
  const role = `holdfast_role_${randomBytes(4).toString('hex')}`
  await sql(url, `create role ${role} superuser login password 'role-secret'`)
  onTestFinished(async () => void (await sql(inject('adminUrl'), `drop role ${role}`)))
  const address = new URL(url)
  address.username = role
  address.password = 'role-secret'
  const holdfast = await open({ url: address.href })
  onTestFinished(() => holdfast.close())
  const worker = work(holdfast, [defineJob('some', { run: () => {} })])
  await worker.ready()
  await untilStatus(holdfast, 'up')
  await sql(url, `alter role ${role} nosuperuser`)
  const { reasons } = await untilStatus(holdfast, 'degraded', 'WORKER_FAILED')
  expect(reasons).toContainEqual({
    code: 'WORKER_FAILED',
    message: expect.stringMatching(
      /^The worker of "default" cannot claim jobs: The role lacks a privilege: permission denied/,
    ),
  })
  expect(await readyStatus(holdfast)).toBe(200)
  await sql(url, `alter role ${role} superuser`)
  await untilStatus(holdfast, 'up')
})

test('an instance is degraded while a campaign and a share pause after failures', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  let fails = true
  const fail = ({ signal }: { signal: AbortSignal }) => {
    if (fails) throw new Error('not today')
    return new Promise((resolve) => signal.addEventListener('abort', resolve))
  }
  holdfast.elections.campaign('indexer', fail)
  holdfast.shares.assign('feeds', ['a'], (_, owned) => fail(owned))
  const { reasons } = await untilStatus(holdfast, 'degraded', 'CAMPAIGN_FAILED', 'SHARE_FAILED')
  expect(reasons).toEqual([
    { code: 'CAMPAIGN_FAILED', message: 'The campaign for "indexer" is paused after a failure: not today' },
    { code: 'SHARE_FAILED', message: 'The work on "a" of the share "feeds" is paused after a failure: not today' },
  ])
  expect(await readyStatus(holdfast)).toBe(200)
  fails = false
  await untilStatus(holdfast, 'up')
})

test('an instance whose schedules cannot tick is degraded', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  let ticks = 0
  holdfast.schedules.add('often', { every: '1s' }, () => void ticks++)
  await until('the schedule has ticked', () => ticks > 0)
  await sql(url, 'alter function holdfast.schedule_poll rename to schedule_poll_away')
  const { reasons } = await untilStatus(holdfast, 'degraded', 'SCHEDULES_FAILED')
  expect(reasons[0]!.message).toMatch(
    /^Scheduled runs cannot start: function holdfast.schedule_poll\(.* does not exist/,
  )
  await sql(url, 'alter function holdfast.schedule_poll_away rename to schedule_poll')
  await untilStatus(holdfast, 'up')
})

/** Mounts a small file system. Returns undefined if that is not possible. */
function smallDisk(): string | undefined {
  const place = mkdtempSync(join(tmpdir(), 'holdfast-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=96m', 'tmpfs', place], { stdio: 'ignore' })
  } catch {
    rmdirSync(place)
    return undefined
  }
  onTestFinished(() => {
    execFileSync('umount', ['-l', place])
  })
  return place
}

test('an instance whose disk is full is degraded while writes fail', { timeout: 90_000 }, async (context) => {
  if (process.getuid?.() !== 0) return context.skip('The test needs a small file system, and only root can mount one')
  const server = await ownServer()
  const disk = smallDisk()
  if (disk === undefined) return context.skip('The test needs a small file system, and a tmpfs cannot be mounted here')
  // The server runs as the user `nobody`, because this process is root.
  const place = join(disk, 'tablespace')
  mkdirSync(place)
  chmodSync(disk, 0o777)
  const owner = Number(execFileSync('id', ['-u', 'nobody'], { encoding: 'utf8' }))
  chownSync(place, owner, owner)
  await sql(server.url, `create tablespace small location '${place}'`)
  const template = inject('preparedServer').templateName
  await sql(server.url, `create database full_disk template ${template} tablespace small`)
  const address = new URL(server.url)
  address.pathname = '/full_disk'
  const url = address.href
  const holdfast = await open({ url })
  const job = defineJob<unknown>('large', { run: () => {} })
  const worker = work(holdfast, [job])
  await worker.ready()
  await untilStatus(holdfast, 'up')
  const fill = 'insert into filler select repeat(md5(n::text), 200) from generate_series(1, 100000) as n'
  await sql(url, 'create table filler (x text)')
  await sql(url, 'alter table filler alter x set storage external')
  await caught(Error, sql(url, fill))
  // Only vacuum frees the space of a failed insert.
  const enqueue = () => holdfast.jobs.enqueue(job, randomBytes(300_000).toString('base64'))
  const refused = await caught(DatabaseError, async () => {
    for (;;) await enqueue()
  })
  expect(refused).toMatchObject({ code: 'DATABASE_ERROR', sqlstate: '53100' })
  const { reasons } = await untilStatus(holdfast, 'degraded', 'WRITES_FAILING')
  expect(reasons.find(({ code }) => code === 'WRITES_FAILING')!.message).toMatch(/No space left on device/)
  expect(await readyStatus(holdfast)).toBe(200)
  const { findings } = await holdfast.doctor({ patience: '1s' })
  console.log('doctor while the disk is full:', findings.map(({ id, severity }) => `${severity} ${id}`).join(', '))
  await sql(url, 'drop table filler')
  await sql(url, 'checkpoint')
  await until('an enqueue succeeds', () =>
    enqueue().then(
      () => true,
      () => false,
    ),
  )
  await untilStatus(holdfast, 'up')
})
