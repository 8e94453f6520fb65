// Checks that `holdfast migrate --application … --observer … --operator …` grants each role the privileges that it needs, and no others.
import { describe, expect, onTestFinished, test } from 'vitest'
import { views } from '../../src/dashboard/views/index.js'
import { defineJob, Holdfast } from '../../src/index.js'
import { grantsFor } from '../../src/postgres/index.js'
import { run } from '../cli/program.js'
import { fits } from '../cli/schemas.js'
import { act, board, raw, serve } from '../dashboard/fixture.js'
import { applyFix, examineDatabase, found } from '../doctor/fixture.js'
import { anchorModes } from '../jobs/fixture.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, emptyDatabaseUrl, open, roleUrl } from '../setup/instances.js'
import { waysOf } from '../setup/variants.js'
import { tour } from './tour.js'

/** Creates a database with an unprivileged owner, who migrates, and three roles that own nothing. */
async function createRoles() {
  const admin = await emptyDatabaseUrl()
  const [owner, application, observer, operator] = [
    await roleUrl(admin),
    await roleUrl(admin),
    await roleUrl(admin),
    await roleUrl(admin),
  ]
  await sql(admin, `grant create on database ${new URL(admin).pathname.slice(1)} to ${owner.role}`)
  const roles = ['--application', application.role, '--observer', observer.role, '--operator', operator.role]
  const migrate = async (...args: string[]) => {
    const result = await run(['migrate', ...roles, ...args], { DATABASE_URL: owner.url })
    expect(result.status, result.stderr).toBe(0)
    return result
  }
  return { admin, owner, application, observer, operator, migrate }
}

const acl = (url: string) =>
  sql(
    url,
    `select relname, relacl::text from pg_class where relnamespace = 'holdfast'::regnamespace
     union all select proname, proacl::text from pg_proc where pronamespace = 'holdfast'::regnamespace
     union all select nspname, nspacl::text from pg_namespace where nspname = 'holdfast'
     union all select defaclobjtype::text, defaclacl::text from pg_default_acl
     order by 1, 2`,
  )

const denied = { code: '42501' }

describe('migrate', () => {
  test('migrate shows its SQL, runs it, and can run again', async () => {
    const { admin, owner, application, migrate } = await createRoles()
    const script = (await migrate('--show-sql')).stdout
    expect(script).toContain(`grant usage on schema "holdfast" to "${application.role}";`)
    const dry = fits('migrate', JSON.parse((await migrate('--dry-run', '--json')).stdout)) as { grants: string[] }
    expect(dry.grants).toHaveLength(21)
    expect((await sql(admin, "select to_regnamespace('holdfast') is null as absent"))[0]).toEqual({ absent: true })

    const { stderr } = await migrate()
    expect(stderr).toContain(`The role ${application.role} has the rights of an application.`)
    const granted = await acl(admin)
    await migrate()
    expect(await acl(admin)).toEqual(granted)
    // The printed SQL grants the same privileges.
    await sql(admin, 'drop schema holdfast cascade')
    await sql(owner.url, script)
    expect(await acl(admin)).toEqual(granted)
  })

  test('migrate refuses roles that do not exist, and PUBLIC', async () => {
    const url = await databaseUrl()
    for (const args of [
      ['--observer', 'no-such-role'],
      ['--application', 'public'],
      ['--operator', 'PUBLIC'],
      ['--observer', 'postgres', '--operator', 'postgres'],
    ]) {
      const { status, stderr } = await run(['migrate', ...args, '--show-sql'], { DATABASE_URL: url })
      expect([args, status, stderr]).toEqual([
        args,
        2,
        expect.stringMatching(/to be an existing role|specified only once/),
      ])
    }
  })

  test('migrate quotes the names of roles and schemas', async () => {
    const url = await databaseUrl()
    const [role, schema] = ['it\'s "me"; drop schema holdfast; --', 'a "schema"; --']
    await sql(url, `create role ${'"it\'s ""me""; drop schema holdfast; --"'}`)
    onTestFinished(async () => {
      const quoted = '"it\'s ""me""; drop schema holdfast; --"'
      await sql(url, `drop owned by ${quoted}; drop role ${quoted}`)
    })
    const { status, stderr } = await run(['migrate', '--schema', schema, '--observer', role], { DATABASE_URL: url })
    expect(status, stderr).toBe(0)
    expect(
      await sql(
        url,
        `select has_table_privilege($1, to_regclass($2), 'select') as looks, has_table_privilege($1, to_regclass($2), 'insert') as writes`,
        [role, '"a ""schema""; --".lease'],
      ),
    ).toEqual([{ looks: true, writes: false }])
    expect(await sql(url, 'select from holdfast.lease')).toEqual([])
  })
})

describe.each(waysOf(anchorModes))('an application role that owns nothing: $name', ({ anchor }) => {
  test('the role can use every room', { timeout: 90_000 }, async () => {
    const { application, migrate } = await createRoles()
    await migrate()
    await tour(application.url, { anchor, namespace: 'tour' })
    const { findings } = await examineDatabase(application.url)
    expect(findings.filter(({ severity }) => severity === 'wrong')).toEqual([])
  })
})

test('an application role can write neither the audit nor the migrations, and can create, change or drop nothing', async () => {
  const { application, owner, migrate } = await createRoles()
  await migrate()
  const refused = [
    "insert into holdfast.audit (visitor, act, subject, params, consequence) values ('ada', '', '', '{}', '')",
    'delete from holdfast.audit',
    "update holdfast.audit set visitor = 'bob'",
    "insert into holdfast.migration (version, name, works_from) values (99, 'later', 99)",
    'delete from holdfast.migration',
    'update holdfast.applied_functions set revision = 99',
    'create table holdfast.mine ()',
    'create function holdfast.mine() returns void language sql as $$ $$',
    'alter table holdfast.job add column mine text',
    'drop table holdfast.sample',
    'truncate holdfast.job',
    'drop view holdfast.job_history',
    'create or replace view holdfast.job_live as select 1',
    'drop schema holdfast cascade',
    'alter function holdfast.job_roll_partitions(integer) security invoker',
    'create or replace function holdfast.notification_channel() returns text language sql as $$ select 1::text $$',
    'create trigger mine before insert on holdfast.job execute function suppress_redundant_updates_trigger()',
  ]
  for (const statement of refused) {
    await expect(sql(application.url, statement), statement).rejects.toMatchObject(denied)
  }
  // PostgreSQL only warns if a role grants a privilege that it may not grant.
  await sql(application.url, 'grant select on holdfast.job to public')
  const [given] = await sql(owner.url, "select relacl::text as acl from pg_class where oid = 'holdfast.job'::regclass")
  expect(given!.acl).not.toMatch(/[{,]=/)
  // The application may use tables that the owner creates later: daily partitions, and tables of later migrations.
  await sql(owner.url, 'create table holdfast.later (a integer); create sequence holdfast.counter')
  await sql(
    application.url,
    "insert into holdfast.later values (nextval('holdfast.counter')); select holdfast.job_roll_partitions(7)",
  )
})

describe('an observer role', () => {
  const reads = [
    'lock ls',
    'lock show held',
    'lease ls',
    'lease show leased',
    'limit ls',
    'limit show full',
    'delivery ls',
    'delivery show done',
    'job ls',
    'job show 1',
    'queue ls',
    'schedule ls',
    'schedule show books',
    'instance ls',
    'graph',
    'top --once',
    'top --json',
    'doctor',
    'migrate --check',
  ]
  const acts = [
    'lease expire leased',
    'limit reset full',
    'delivery forget done',
    'job add default echo {}',
    'job cancel 1',
    'job retry 1',
    'queue pause default',
    'schedule run books',
    'schedule pause books',
    'schedule override books --every 5m',
  ]

  test('an observer can read everything and change nothing', { timeout: 90_000 }, async () => {
    const { application, observer, operator, admin, migrate } = await createRoles()
    await migrate()
    const holdfast = await open({ url: application.url })
    const echo = defineJob('echo', { run: () => {} })
    const lock = await holdfast.locks.acquire('held')
    await holdfast.leases.acquire('leased')
    await holdfast.limits.acquire('full', { max: 1 })
    await holdfast.once.run('done', () => 1)
    await holdfast.jobs.enqueue(echo, null, { delay: '1h' })
    holdfast.schedules.add('books', { every: '1h' }, () => {})
    await until('the schedule is known', () => holdfast.schedules.find('books'))

    for (const line of reads) {
      const { status, stderr } = await run(line.split(' '), { DATABASE_URL: observer.url })
      expect([line, status, stderr.includes('denied')], stderr).toEqual([line, 0, false])
    }
    const before = await rows(admin)
    for (const line of acts) {
      const { status, stderr } = await run([...line.split(' ')], { DATABASE_URL: observer.url, HOLDFAST_YES: '1' })
      expect([line, status, stderr]).toEqual([line, 1, expect.stringContaining('The role lacks a privilege')])
    }
    expect(await rows(admin)).toEqual(before)
    expect(lock.signal.aborted).toBe(false)

    const base = await serve(board({ url: observer.url }))
    for (const [name, { needs }] of Object.entries(views)) {
      if (Object.keys(needs).length > 0) continue
      const { status, text } = await raw(`${base}/api/view/${name}`)
      expect([name, status], text).toEqual([name, 200])
    }
    expect(await act(base, 'release-name', { params: { key: lock.keys[0] } })).toMatchObject({
      status: 500,
      answer: { error: { code: 'PERMISSION_DENIED' } },
    })
    expect(lock.signal.aborted).toBe(false)
    // The application role cannot write the audit, so the action fails.
    const applicationBoard = await serve(board({ url: application.url }))
    expect((await act(applicationBoard, 'release-name', { params: { key: lock.keys[0] } })).status).toBe(500)
    const operatorBoard = await serve(board({ url: operator.url }))
    expect(await act(operatorBoard, 'release-name', { params: { key: lock.keys[0] } })).toMatchObject({ status: 200 })
    await until('the holder receives the request', () => lock.signal.aborted)
    expect(await sql(operator.url, 'select act from holdfast.audit')).toEqual([{ act: 'release-name' }])
  })

  test('an observer has no privilege to write to any table or sequence, or to run functions as the owner', async () => {
    const { observer, owner, migrate } = await createRoles()
    await migrate()
    await sql(owner.url, 'create table holdfast.later (a integer)')
    const written = await sql(
      observer.url,
      `select relname, what
       from pg_class, unnest(array['insert', 'update', 'delete', 'truncate', 'references', 'trigger']) as what
       where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p', 'v') and has_table_privilege(oid, what)
       union all
       select relname, what
       from pg_class, unnest(array['usage', 'update']) as what
       where relnamespace = 'holdfast'::regnamespace and relkind = 'S' and has_sequence_privilege(oid, what)
       union all
       select proname, 'execute as the owner'
       from pg_proc
       where pronamespace = 'holdfast'::regnamespace and prosecdef and has_function_privilege(oid, 'execute')`,
    )
    expect(written).toEqual([])
    expect(await sql(observer.url, 'select from holdfast.later')).toEqual([])
    const views = await sql<{ name: string }>(
      observer.url,
      "select relname as name from pg_class where relnamespace = 'holdfast'::regnamespace and relkind = 'v'",
    )
    expect(views.map(({ name }) => name)).toContain('job_live')
    for (const { name } of views) expect(await sql(observer.url, `select from holdfast.${name}`), name).toEqual([])
    expect(await sql(observer.url, "select from holdfast.job_find('{1}')")).toEqual([])
    expect(await sql(observer.url, 'select from holdfast.job_lost()')).toEqual([])
    const [{ rolname }] = (await sql(observer.url, 'select current_user as rolname')) as [{ rolname: string }]
    expect(rolname).toBe(observer.role)
    await expect(sql(observer.url, 'select holdfast.job_roll_partitions(-1000)')).rejects.toMatchObject(denied)
    const [finding] = await found(observer.url, 'missing-rights')
    expect(finding).toMatchObject({ severity: 'note', text: `The role ${observer.role} is read-only` })
    await expect(Holdfast.open({ url: observer.url })).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    // The fix that the doctor prints grants the privileges of an application.
    await applyFix(owner.url, finding!)
    await open({ url: observer.url })
  })
})

test('the doctor names the missing privileges of an application role', async () => {
  const { application, owner, migrate } = await createRoles()
  await migrate()
  const findMissing = async () =>
    (await examineDatabase(application.url)).findings.filter(({ id }) => id === 'missing-rights')
  expect(await findMissing()).toEqual([])
  await sql(
    owner.url,
    `revoke delete on holdfast.delivery from ${application.role};
     revoke select on holdfast.job_live from ${application.role};
     revoke update on sequence holdfast.fence from ${application.role};
     revoke execute on function holdfast.job_roll_partitions(integer) from ${application.role}`,
  )
  const [finding] = await findMissing()
  expect(finding!.text).toBe(
    `The role ${application.role} lacks rights on function job_roll_partitions, sequence fence, table delivery and view job_live`,
  )
  expect(finding!.fix.sql).toEqual(grantsFor({ role: application.role, as: 'application' }, 'holdfast', owner.role))
  await applyFix(owner.url, finding!)
  expect(await findMissing()).toEqual([])
})

/** Returns the rows of all tables that do not change without a call. */
async function rows(url: string) {
  const tables = [
    'delivery',
    'job',
    'job_removed',
    'job_skipped',
    'job_note',
    'job_end',
    'job_stopped',
    'claim',
    'frontier',
    'waiting',
    'unique_job',
    'limit_state',
    'permit',
    'queue',
    'tick',
    'audit',
  ]
  const counted = tables.map(
    (table) => `select '${table}' as name, array_agg(t::text order by t::text) from holdfast.${table} as t`,
  )
  return sql(url, counted.join(' union all '))
}
