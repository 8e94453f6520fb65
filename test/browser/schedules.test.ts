// Tests the page of schedules in a real browser, with real processes.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Holdfast } from '../../src/index.js'
import { sql, until } from '../setup/facts.js'
import { typescript } from '../setup/typescript.js'
import { runsAll } from '../setup/variants.js'
import { type Board, describeInBrowser, expectAccessible, openPage, startBoard } from './fixture.js'

const hostile = `<script>alert(1)</script> "it's" \u202edlrow\u202c ${'long '.repeat(80)}`

describeInBrowser('the page of schedules', () => {
  let board: Board
  beforeAll(async () => {
    board = await startBoard()
  })
  afterAll(() => board.close())

  test.skipIf(!runsAll)(
    'each tick has one winner of five instances, even while one instance is frozen',
    async () => {
      const members = await Promise.all(Array.from({ length: 5 }, () => startMember(board.databaseUrl)))
      const ids = members.map(({ id }) => id)
      const page = await openPage(board, { at: '#/schedules?minutes=1' })
      const row = page.getByRole('group', { name: /^Ticks of each-second/ })
      await row.waitFor()
      await until('three instances have won a tick', async () => (await winners(board.databaseUrl)).length >= 3)

      const [frozen] = members
      frozen!.process.kill('SIGSTOP')
      await until(
        'the frozen instance is no longer present',
        async () => !(await isPresent(board.databaseUrl, frozen!.id)),
      )
      const frozenAt = await clock(board.databaseUrl)
      await until('four ticks have passed', async () => (await clock(board.databaseUrl)) - frozenAt > 4_000)

      // Each tick in the database is a tick of the timeline. One instance has won it, which is not the frozen one.
      const cells = await page.evaluate(async () => {
        const answer = await fetch('api/view/tick-timeline?minutes=1&steps=70')
        return (await answer.json()).data.rows.find(({ name }: { name: string }) => name === 'each-second').cells
      })
      for (const { runs, ticks } of cells)
        expect(runs.reduce((sum: number, { n }: { n: number }) => sum + n, 0)).toBe(ticks)
      for (const { at, runs } of cells) {
        expect(runs.length).toBeLessThanOrEqual(1)
        if (runs[0]) expect(ids).toContain(runs[0].instance)
        if (Date.parse(at) > frozenAt)
          expect(runs.map(({ instance }: { instance: string }) => instance)).not.toContain(frozen!.id)
      }
      const unproven = await sql(
        board.databaseUrl,
        'select at from holdfast.tick where not extra group by schedule, at having count(*) <> 1',
      )
      expect(unproven).toEqual([])

      // The page shows the same: one letter for each dot. The arrow keys show who has won a tick, and who else could have.
      await until('the dots are drawn', async () => (await row.locator('.tick-timeline-cell').count()) > 5)
      for (const cell of await row.locator('.tick-timeline-cell').all()) {
        if ((await cell.locator('.tick-timeline-dot').count()) > 0)
          expect(await cell.locator('.tick-timeline-dot text').count()).toBe(1)
      }
      await row.focus()
      await page.keyboard.press('ArrowLeft')
      const status = page.locator('.tick-timeline-details')
      await until('the details name the winner', async () =>
        /each-second tick .*(done|running) by/.test((await status.textContent()) ?? ''),
      )
      await status.getByText('Other candidates:').waitFor()
      await page.keyboard.press('t')
      await page.getByRole('table', { name: 'Ticks' }).getByRole('cell', { name: 'each-second' }).first().waitFor()
      await page.keyboard.press('t')
      frozen!.process.kill('SIGCONT')
    },
    40_000,
  )

  test('a user inspects, pauses, resumes and runs a schedule with the keyboard, and sees the effect', async () => {
    const url = board.databaseUrl
    await using holdfast = await Holdfast.open({ url, namespace: 'crew' })
    holdfast.schedules.add('nightly', { cron: '30 1 * * *', timezone: 'Europe/London' }, async ({ log }) => {
      log('<b>half</b> way')
      throw new TypeError('no <i>such</i> table')
    })
    holdfast.schedules.add(hostile, { every: '1h' }, async () => {})
    await until('both schedules are known', async () => (await holdfast.schedules.list()).length === 2)
    const page = await openPage(board, { at: '#/schedules?namespace=crew', theme: 'dark' })
    await expectAccessible(page)
    await page.getByRole('row', { name: /nightly/ }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Next runs' }).waitFor()
    await page.getByText(/The clocks go (back|forward): /).waitFor()

    const press = async (label: string, consequence: RegExp) => {
      const button = page.getByRole('button', { name: `${label} nightly` }).first()
      await button.focus()
      await page.keyboard.press('Enter')
      const dialog = page.getByRole('dialog', { name: /^(Pause|Resume|Run)/ })
      await dialog.getByText(consequence).waitFor()
      await page.keyboard.press('Tab')
      await dialog.getByRole('button', { name: label, exact: true }).focus()
      await page.keyboard.press('Enter')
      await dialog.waitFor({ state: 'detached' })
    }
    await press('Pause', /The ticks of "nightly" will not run until the schedule is resumed/)
    expect((await holdfast.schedules.find('nightly'))?.pausedAt).toBeDefined()
    await press('Resume', /"nightly" follows its rule again/)
    expect((await holdfast.schedules.find('nightly'))?.pausedAt).toBeUndefined()
    await press('Run now', /will start an additional run of "nightly" now/)
    const history = page.getByRole('table', { name: 'Runs and gaps' })
    await history.getByText('TypeError: no <i>such</i> table').waitFor()
    await history.getByRole('row', { name: /failed/ }).focus()
    await page.keyboard.press('Enter')
    await page.getByText('<b>half</b> way').waitFor()
    await expectAccessible(page)

    const narrow = await openPage(board, { at: '#/schedules?namespace=crew&schedule=nightly&of=crew', width: 390 })
    await narrow
      .getByText(/without a run|failed/)
      // The titles of the graphic contain the text too, but are never visible.
      .filter({ visible: true })
      .first()
      .waitFor()
    await expectAccessible(narrow)
    const [audited] = await sql<{ acts: string[] }>(
      url,
      'select array_agg(act order by id) as acts from holdfast.audit',
    )
    expect(audited!.acts).toEqual(['pause-schedule', 'resume-schedule', 'run-schedule'])
  }, 40_000)
})

async function startMember(url: string): Promise<{ process: ChildProcess; id: string }> {
  const details = { url, schedules: [{ name: 'each-second', every: '1s' }] }
  const member = fork(fileURLToPath(new URL('./member.ts', import.meta.url)), [JSON.stringify(details)], {
    execArgv: typescript,
  })
  onTestFinished(() => void member.kill('SIGKILL'))
  const [{ id }] = (await once(member, 'message')) as [{ id: string }]
  return { process: member, id }
}

async function winners(url: string): Promise<object[]> {
  return sql(url, 'select distinct instance from holdfast.tick where instance is not null')
}

async function isPresent(url: string, id: string): Promise<boolean> {
  const [row] = await sql<{ is: boolean }>(
    url,
    'select holdfast.is_present(session) as is from holdfast.instance where id = $1',
    [id],
  )
  return row?.is ?? false
}

async function clock(url: string): Promise<number> {
  const [row] = await sql<{ ms: number }>(url, 'select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms')
  return row!.ms
}
