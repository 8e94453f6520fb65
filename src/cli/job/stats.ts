import { defaultTimes, formatDuration } from '../../base/index.js'
import type { LastError, TrendCounts, Trends } from '../../observe/index.js'
import { observe } from '../connect.js'
import type { JobStatsRow } from '../documents.js'
import { printMessage } from '../failure.js'
import { type Column, namespaceColumn, pipedColumns, printRows } from '../output.js'
import { maxSinceMs, type Settings } from '../settings.js'

export async function jobStats(settings: Settings): Promise<void> {
  const by = settings.oneOf('by', 'kind', 'queue') ?? 'kind'
  const sinceMs = settings.durationMs('since', 60_000, maxSinceMs) ?? defaultTimes.sinceMs
  const [namespace, queue, kind] = (['namespace', 'queue', 'kind'] as const).map((option) => settings.name(option))
  const hours = sinceMs / 3_600_000
  const found = await observe(settings, (observer) => observer.trends({ namespace, queue, kind, hours }))
  const rows = rowsOf(found, by, { queue, kind })
  printRows<'job-stats'>(settings, rows, columns(by, rows))
  if (rows.length === 0) printMessage(`No jobs ended in the last ${formatDuration(sinceMs)}.`)
  if (found.isEstimated)
    printMessage('The counts are estimates, because the history is too long to be read completely.')
  if (found.oneOf > 1) printMessage(`The times are based on one in ${found.oneOf.toLocaleString('en')} done jobs.`)
}

function rowsOf(
  { kinds, queues, from, until }: Trends,
  by: 'kind' | 'queue',
  only: { readonly queue: string | undefined; readonly kind: string | undefined },
): JobStatsRow[] {
  const minutes = (until.getTime() - from.getTime()) / 60_000
  const row = (name: string, namespace: string | null, counts: TrendCounts, lastError: LastError | null) => {
    const { done, failedAttempts, failed, waited, took } = counts
    const attempts = done + failedAttempts
    return {
      by,
      name,
      namespace,
      done,
      perMinute: Number((done / minutes).toPrecision(3)),
      failedAttempts,
      failureShare: attempts === 0 ? null : Number((failedAttempts / attempts).toPrecision(3)),
      failed,
      waited,
      took,
      lastError,
    }
  }
  if (by === 'kind') {
    return kinds
      .filter(({ kind }) => only.kind === undefined || kind === only.kind)
      .map(({ kind, namespace, lastError, ...counts }) => row(kind, namespace, counts, lastError))
  }
  return queues
    .filter(({ queue }) => only.queue === undefined || queue === only.queue)
    .map(({ queue, namespace, ...counts }) => row(queue, namespace, counts, null))
}

function columns(by: 'kind' | 'queue', rows: readonly JobStatsRow[]): Column<JobStatsRow>[] {
  const time = (title: string, of: 'waited' | 'took'): Column<JobStatsRow> => ({
    title,
    value: (row) => row[of]?.p95Ms ?? null,
    shown: (row) => (row[of] ? formatDuration(row[of].p95Ms) : ''),
  })
  const count = (title: string, of: 'done' | 'failedAttempts' | 'failed', isBad: boolean): Column<JobStatsRow> => ({
    title,
    value: (row) => row[of],
    shown: (row) => row[of].toLocaleString('en'),
    colour: (row) => (isBad && row[of] > 0 ? 'red' : undefined),
  })
  return [
    { title: by.toUpperCase(), value: ({ name }) => name },
    namespaceColumn(rows),
    { title: 'PER MIN', value: ({ perMinute }) => perMinute, shown: ({ perMinute }) => perMinute.toLocaleString('en') },
    count('DONE', 'done', false),
    count('FAILED ATTEMPTS', 'failedAttempts', true),
    {
      title: 'SHARE',
      value: ({ failureShare }) => failureShare,
      shown: ({ failureShare }) => (failureShare === null ? '' : formatShare(failureShare)),
    },
    count('FAILED', 'failed', true),
    time('P95 RUN', 'took'),
    time('P95 WAIT', 'waited'),
    ...(by === 'kind'
      ? [
          {
            title: 'LAST ERROR',
            value: ({ lastError }: JobStatsRow) =>
              lastError && `${lastError.name ?? 'Error'}: ${lastError.message ?? ''}`,
          },
        ]
      : []),
    ...pipedColumns<JobStatsRow>({ BY: 'by' }),
  ]
}

/** Formats a share as a percentage. A share that is not 0 is never shown as 0 %. */
function formatShare(share: number): string {
  const percent = share * 100
  return percent > 0 && percent < 0.1 ? '<0.1%' : `${Number(percent.toFixed(1))}%`
}
