import { describe, expect, test } from 'vitest'
import { run, startOnTerminal } from './program.js'
import { fits, fitsRow } from './schemas.js'

const forward = ['schedule', 'next', '30 2 * * *', '--timezone', 'America/New_York', '--from', '2026-03-07']

describe('schedule next', () => {
  test('schedule next prints one document, JSON lines or tab-separated fields, and needs no database', async () => {
    const args = [...forward, '--count', '2']
    const nowhere = { DATABASE_URL: 'postgres://app@127.0.0.1:1/app' }
    const ticks = [
      {
        at: '2026-03-07T07:30:00.000Z',
        local: '2026-03-07 02:30:00',
        offset: '-05:00',
        timezone: 'America/New_York',
        note: null,
      },
      {
        at: '2026-03-08T07:00:00.000Z',
        local: '2026-03-08 03:00:00',
        offset: '-04:00',
        timezone: 'America/New_York',
        note: 'clock change: replaces 02:30',
      },
    ]
    const document = await run([...args, '--json'], nowhere)
    expect(document).toMatchObject({ status: 0, stderr: '' })
    expect(fits('schedule-next', JSON.parse(document.stdout))).toEqual(ticks)
    const { stdout: lines } = await run([...args, '--jsonl'])
    expect(
      lines
        .trimEnd()
        .split('\n')
        .map((line) => fitsRow('schedule-next', JSON.parse(line))),
    ).toEqual(ticks)
    const { stdout: piped } = await run(args)
    expect(piped.split('\n')[1]?.split('\t')).toEqual([
      '2026-03-08 03:00:00',
      '-04:00',
      'America/New_York',
      '2026-03-08T07:00:00.000Z',
      'clock change: replaces 02:30',
    ])
  })

  test('schedule next prints a table on a terminal, with room for the note', async () => {
    const { stdout } = await startOnTerminal([...forward, '--no-color']).ended
    const lines = stdout.trimEnd().split(/\r?\n/)
    expect(lines[0]).toMatch(/^LOCAL TIME +OFFSET +UTC +NOTE$/)
    expect(lines[2]).toBe('2026-03-08 03:00:00  -04:00  2026-03-08 07:00:00  clock change: replaces 02:30')
    expect(lines).toHaveLength(11)
  })

  test('schedule next starts at the current time and in UTC, regardless of the time zone of the machine', async () => {
    const before = Date.now()
    const { stdout } = await run(['schedule', 'next', '@hourly', '--count', '1', '--json'], { TZ: 'Asia/Kathmandu' })
    const [tick] = JSON.parse(stdout)
    expect(tick).toMatchObject({ offset: '+00:00', timezone: 'UTC' })
    expect(Date.parse(tick.at) - before).toBeGreaterThan(0)
    expect(Date.parse(tick.at) - before).toBeLessThanOrEqual(3_600_000)
  })

  test('schedule next accepts an interval', async () => {
    const { stdout } = await run(['schedule', 'next', '--every', '15m', '--from', '2026-01-01T00:07Z', '--count', '2'])
    expect(stdout).toBe(
      '2026-01-01 00:15:00\t+00:00\tUTC\t2026-01-01T00:15:00.000Z\t\n' +
        '2026-01-01 00:30:00\t+00:00\tUTC\t2026-01-01T00:30:00.000Z\t\n',
    )
  })

  test('schedule next reports on stderr that no ticks are left, and prints nothing on stdout', async () => {
    expect(await run(['schedule', 'next', '@daily', '--from', '9999-12-31'])).toEqual({
      status: 0,
      stdout: '',
      stderr: 'The rule has no more ticks.\n',
    })
  })

  test.each([
    [[], 'Expected a cron expression or --every, got neither', 'For example: holdfast schedule next "0 3 * * *"'],
    [['@daily', '--every', '5m'], 'Expected a cron expression or --every, got both'],
    [['0', '3', '*'], "too many arguments for 'next'"],
    [['0 25 * * *'], 'Expected the hour field of cron to be 0 to 23'],
    [['0 0 30 2 *'], 'Expected cron to match at least one date', 'The schedule would never tick'],
    [['@daily', '--timezone', 'Europe/Lodnon'], 'Expected timezone to be', 'Did you mean "Europe/London"?'],
    [['--every', '5m', '--timezone', 'UTC'], 'Expected timezone only together with cron'],
    [['--every', '0.5s'], 'Expected --every to be a duration of at least 1s'],
    [['@daily', '--count', '0'], 'Expected --count to be a whole number between 1 and 1000, got "0"'],
    [['@daily', '--from', '2026-03-29T00:00'], 'Expected --from to be a time with a time zone, such as'],
    [['@daily', '--from', '2026-13-01'], 'Expected --from to be a time'],
  ])('schedule next refuses %j', async (args, message, hint = '') => {
    const { status, stdout, stderr } = await run(['schedule', 'next', ...args])
    expect(stderr).toContain(`holdfast: ${message}`)
    expect(stderr.split('\n')[1]).toContain(hint)
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  })

  test('the help of schedule next starts with examples', async () => {
    const { status, stdout } = await run(['schedule', 'next', '--help'])
    expect(stdout).toMatch(/^Examples:\n {2}holdfast schedule next /)
    expect(status).toBe(0)
  })
})
