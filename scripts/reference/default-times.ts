// Writes docs/reference/default-times.md: the default waits and time limits of the API and of the commands. The values come from the code.
// The compiler reports a default without an entry.
import { defaultTimes, formatDuration } from '../../dist/base/index.js'

interface Entry {
  /** Calls or commands that have the option. */
  calls: string
  option: string
  meaning: string
}

const entries: Record<keyof typeof defaultTimes, Entry> = {
  expiryMs: {
    calls: '`Holdfast.open`',
    option: '`expiry`',
    meaning: 'Time after which a frozen or disconnected instance loses what it holds',
  },
  acquireWaitMs: {
    calls: '`acquire` and `with` of locks and leases, `locks.inTransaction`',
    option: '`wait`',
    meaning: 'Maximum time to wait for the name',
  },
  tryAcquireWaitMs: {
    calls: '`tryAcquire` of locks and leases, `locks.tryInTransaction`',
    option: '`wait`',
    meaning: 'Maximum time to wait for the name',
  },
  leaseTtlMs: {
    calls: '`acquire`, `tryAcquire` and `with` of leases, `holdfast lock run --lease`',
    option: '`ttl`, `--ttl`',
    meaning: 'Time after which a lease expires if it is not renewed',
  },
  leaseMinHoldMs: {
    calls: '`acquire`, `tryAcquire` and `with` of leases, `holdfast lock run --lease`',
    option: '`minHold`, `--min-hold`',
    meaning: 'Minimum time for which the name stays taken',
  },
  leaseSpreadMs: {
    calls: '`acquire`, `tryAcquire` and `with` of leases',
    option: '`spread`',
    meaning: 'Maximum random delay before the first attempt',
  },
  limitWaitMs: {
    calls: '`acquire`, `tryAcquire` and `with` of limits',
    option: '`wait`',
    meaning: 'Maximum time to wait for a permit',
  },
  rateWaitMs: { calls: '`limits.consume`', option: '`wait`', meaning: 'Maximum time to wait for the rate limit' },
  onceWaitMs: {
    calls: '`once.run`, `once.inTransaction`, `webhooks`, `idempotent`',
    option: '`wait`',
    meaning: 'Maximum time that a duplicate waits for the answer of the run in flight',
  },
  onceRetainMs: {
    calls: '`once.run`, `once.inTransaction`, `webhooks`, `idempotent`',
    option: '`retain`',
    meaning: 'Retention time of the recorded result',
  },
  shareWindowMs: {
    calls: '`shares.each` without `round`',
    option: '`window`',
    meaning: 'Time within which calls belong to the same round',
  },
  scheduleSpreadMs: {
    calls: '`schedules.add`, `defineSchedule`',
    option: '`spread`',
    meaning: 'Maximum random delay before an instance claims a tick',
  },
  jobBackoffMs: { calls: '`defineJob`', option: '`retry.backoff`', meaning: 'Pause after the first failure' },
  jobMaxBackoffMs: {
    calls: '`defineJob`',
    option: '`retry.maxBackoff`',
    meaning: 'Maximum pause between two attempts',
  },
  batchWaitMs: {
    calls: '`defineJob` with `batch`',
    option: '`batch.wait`',
    meaning: 'Maximum time that a job waits for the rest of its batch',
  },
  jobResultWaitMs: { calls: '`jobs.result`', option: '`wait`', meaning: 'Maximum time to wait until the job ends' },
  jobRetainMs: {
    calls: '`Holdfast.open`',
    option: '`jobs.retain`',
    meaning: 'Retention time of ended jobs',
  },
  drainWithinMs: {
    calls: '`holdfast.drain`, `close` of a worker or a schedule, `holdfast instance drain`',
    option: '`within`, `--within`',
    meaning: 'Time allowed for running work to finish',
  },
  doctorPatienceMs: {
    calls: '`holdfast.doctor`, `holdfast doctor`',
    option: '`patience`, `--patience`',
    meaning: 'Duration after which the doctor reports transactions, pauses and waits',
  },
  doctorUnservedPatienceMs: {
    calls: '`holdfast.doctor`, `holdfast doctor`',
    option: '`patience`, `--patience`',
    meaning: 'Duration after which the doctor reports ready jobs without a worker',
  },
  testDrainWithinMs: { calls: '`drain` of `holdfast/testing`', option: '`within`', meaning: 'Maximum duration' },
  testJobEndedWithinMs: {
    calls: '`jobEnded` of `holdfast/testing`',
    option: '`within`',
    meaning: 'Maximum time to wait until the job ends',
  },
  workDrainMs: {
    calls: '`holdfast work`',
    option: '`--drain`',
    meaning: 'Time allowed for running work to finish after a signal',
  },
  lockRunKillAfterMs: {
    calls: '`holdfast lock run`',
    option: '`--kill-after`',
    meaning: 'Time from SIGTERM to SIGKILL if the lock is lost',
  },
  topIntervalMs: { calls: '`holdfast top`', option: '`--interval`', meaning: 'Time between two refreshes' },
  sinceMs: { calls: '`holdfast changes`, `holdfast job stats`', option: '`--since`', meaning: 'Period to look back' },
}

/** Returns the text of the page. */
export function defaultTimesPage(): string {
  const rows = Object.entries(defaultTimes).map(([name, ms]) => {
    const { calls, option, meaning } = entries[name as keyof typeof entries]
    return `| ${calls} | ${option} | ${valueText(ms)} | ${meaning} |`
  })
  return `${[
    '# Default times',
    '',
    '<!-- Written by npm run reference from src/base/default-times.ts and scripts/reference/default-times.ts. -->',
    '',
    'Default waits, time limits and other times of the options of calls and commands. An option accepts a',
    '[duration](api/holdfast.md#duration), for example `30s`.',
    '',
    '| call | option | default | meaning |',
    '| --- | --- | --- | --- |',
    ...rows,
    '',
    '`timeout` of jobs and schedules has no default: an attempt or a run has no time limit unless you set one.',
  ].join('\n')}\n`
}

function valueText(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return 'no limit'
  return ms === 0 ? '0' : `\`${formatDuration(ms)}\``
}
