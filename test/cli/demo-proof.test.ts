// Tests that the proof of the demo can fail: exactly one invariant detects each kind of wrong effect.
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { prove } from '../../src/demo/proof.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'

let database: FreshDatabase
let pool: pg.Pool

/** SQL that creates a company without violations. */
const well = `
alter table "order" alter id restart;
alter table customer alter id restart;
insert into report values ('2030-01-01 00:00:00Z', 1, 1, 'Ada'), ('2030-01-01 00:00:10Z', 1, 2, 'Ben');
insert into "order" (billed_at) values (now()), (now()), (null);
insert into invoice values (1, 11, 1, 5, 'Ada');
insert into customer (domain) values ('example.com');
insert into step values
  (1, 'account', null, '2030-01-01 00:00:00Z', '2030-01-01 00:00:01Z', 'Ada'),
  (1, 'contract', null, '2030-01-01 00:00:01Z', '2030-01-01 00:00:02Z', 'Ben'),
  (1, 'mail', 'example.com', '2030-01-01 00:00:01Z', '2030-01-01 00:00:03Z', 'Ben');
with done (id, kind, payload) as (values
  (11, 'write-invoice', '{"order": 1}'), (12, 'account', '{"customer": 1}'),
  (13, 'contract', '{"customer": 1}'), (14, 'mail', '{"customer": 1}')
), entered as (
  insert into holdfast.job (id, entry, era, queue, priority, kind, payload) select id, id, -1, 1, 0, kind, payload::json from done
)
insert into holdfast.job_end (bucket, fence, session, claimed_at, is_done, ids)
select 0, 1, 1, now(), true, array_agg(id) from done;
select holdfast.enqueue('invoices', 'write-invoice', '{"order": 2}');
select holdfast.enqueue('onboarding', 'call', '{"customer": 1}', delay => '1 hour');
insert into booking values ('evt_1', 1, 'Ada');
insert into acknowledged values ('evt_1'), ('evt_1');
insert into export values
  (1, '2030-01-01 00:00:00Z', '2030-01-01 00:00:01Z', 'Ada'),
  (1, '2030-01-01 00:00:01Z', '2030-01-01 00:00:02Z', 'Ben'),
  (2, '2030-01-01 00:00:00Z', '2030-01-01 00:00:02Z', 'Ben'),
  (3, '2030-01-01 00:00:00Z', '2030-01-01 00:00:02Z', 'Ben');
insert into building (city, number, written_by) values
  ('Accra', 1, 'Ada'), ('Accra', 2, 'Ben'), ('Cusco', 1, 'Ada'), ('Cusco', null, null);
insert into document select from generate_series(1, 3);
insert into indexed (document, term, written_by) values (1, 7, 'Ada'), (2, 7, 'Ada'), (3, 9, 'Ben');
insert into entry (number, amount, balance, fence, written_by) values (1, 10, 10, 1, 'Ada'), (2, 5, 15, 2, 'Ben');
insert into exchange_rate (rate, fence, written_by) values (1, 3, 'Ada'), (1, 4, 'Ada')`

beforeAll(async () => {
  database = await freshDatabase()
  // The pool has one session, so that all queries run in the transaction of the test.
  pool = new pg.Pool({ connectionString: database.url, max: 1, options: '-c search_path=company' })
  // `pool.end()` does not wait until the connection has closed. `database.drop()` then ends the connection.
  pool.on('error', () => {})
  const tables = readFileSync(new URL('../../src/demo/company/company.sql', import.meta.url), 'utf8')
  await pool.query(`create schema company; ${tables}`)
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(() => pool.query(`begin; ${well}`).then(() => {}))
afterEach(() => pool.query('rollback').then(() => {}))

async function violationsByInvariant(): Promise<Record<string, number>> {
  const verdicts = await prove(pool, 'holdfast', 'default')
  expect(verdicts.filter(({ checked }) => checked === 0)).toEqual([])
  const found = verdicts.filter(({ violations }) => violations > 0)
  for (const { example } of found) expect(example).not.toBeNull()
  return Object.fromEntries(found.map(({ invariant, violations }) => [invariant, violations]))
}

test('the proof finds no violation in a correct company', async () => {
  expect(await violationsByInvariant()).toEqual({})
})

test.each([
  [
    'holders ≤ 1',
    'an earlier holder writes late',
    "insert into exchange_rate (rate, fence, written_by) values (1, 3, 'Ada')",
  ],
  [
    'holders ≤ 1',
    'two instances write in one term',
    "insert into indexed (document, term, written_by) values (4, 9, 'Ada')",
  ],
  [
    'no update is lost',
    'two writers have read the same balance',
    "insert into entry (number, amount, balance, fence, written_by) values (2, 1, 11, 3, 'Ada')",
  ],
  ['one run per tick', 'a night has two reports', "insert into report values ('2030-01-01 00:00:10Z', 2, 3, 'Ada')"],
  [
    'one run per tick',
    'a night has no report and no recorded reason',
    "insert into report values ('2030-01-01 00:00:30Z', 1, 3, 'Ada')",
  ],
  ['one effect per delivery', 'an event is booked twice', "insert into booking values ('evt_1', 2, 'Ben')"],
  ['one effect per delivery', 'an acknowledged event has no booking', "insert into acknowledged values ('evt_2')"],
  [
    'permits ≤ limit',
    'a customer has two exports at the same time',
    "insert into export values (2, '2030-01-01 00:00:01.5Z', '2030-01-01 00:00:03Z', 'Ada'); delete from export where customer = 3",
  ],
  [
    'permits ≤ limit',
    'four exports run at the same time',
    "insert into export values (4, '2030-01-01 00:00:01.5Z', '2030-01-01 00:00:03Z', 'Ada')",
  ],
  [
    'no gap and no double',
    'a number is assigned twice',
    "insert into building (city, number, written_by) values ('Cusco', 1, 'Ben')",
  ],
  [
    'no gap and no double',
    'a number is skipped',
    "insert into building (city, number, written_by) values ('Cusco', 3, 'Ben')",
  ],
  ['every job ends once', 'an order has two invoices', "insert into invoice values (1, 11, 2, 6, 'Ben')"],
  ['every job ends once', 'a job is lost', 'delete from holdfast.job where id > 14'],
  [
    'every job ends once',
    'a job exists twice',
    "select holdfast.enqueue('invoices', 'write-invoice', '{\"order\": 1}')",
  ],
  ['every job ends once', 'a job is done but its effect is missing', 'delete from invoice'],
  ['every job ends once', 'an effect exists before its job is done', "insert into invoice values (2, 12, 1, 7, 'Ben')"],
  [
    'workflows keep their order',
    'a step begins before the step that it waits for has ended',
    "update step set began_at = '2030-01-01 00:00:00.5Z' where step = 'contract'",
  ],
])('the invariant "%s" detects that %s', async (invariant, _, wrong) => {
  await pool.query(wrong)
  expect(await violationsByInvariant()).toEqual({ [invariant]: 1 })
})

test('the proof accepts a night without a report if a reason is recorded', async () => {
  await pool.query(`
    insert into report values ('2030-01-01 00:00:40Z', 1, 3, 'Ada');
    insert into holdfast.gap values
      (holdfast.lock_key('default', 'schedule/nightly-report'), '2030-01-01 00:00:20Z', '2030-01-01 00:00:30Z', 2, 'missed')`)
  expect(await violationsByInvariant()).toEqual({})
})

test('the proof accepts two mails of one lane at the same time, but not three', async () => {
  const mail = `insert into step values (0, 'mail', 'example.com', '2030-01-01 00:00:01.5Z', '2030-01-01 00:00:02Z', 'Ada')`
  const account = `insert into step values (0, 'account', null, '2030-01-01 00:00:00Z', '2030-01-01 00:00:01Z', 'Ada')`
  await pool.query(`${account}; ${mail}`)
  expect(await violationsByInvariant()).toEqual({})
  await pool.query(mail)
  expect(await violationsByInvariant()).toEqual({ 'permits ≤ limit': 1 })
})
