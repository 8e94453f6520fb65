import { formatDuration } from '../../base/index.js'
import { maxCounted, type ObservedQueue } from '../../observe/index.js'
import { observe } from '../connect.js'
import { printMessage } from '../failure.js'
import { type Column, namespaceColumn, printRows } from '../output.js'
import type { Settings } from '../settings.js'

export async function queueLs(settings: Settings): Promise<void> {
  const namespace = settings.name('namespace')
  const { rows: queues } = await observe(settings, (observer) => observer.jobs.queues({ namespace }))
  printRows<'queue-ls'>(settings, queues, columns(queues))
  if (queues.length === 0) printMessage('No queue has been used yet.')
}

function columns(queues: readonly ObservedQueue[]): Column<ObservedQueue>[] {
  const count = (title: string, of: (queue: ObservedQueue) => number): Column<ObservedQueue> => ({
    title,
    value: (queue) => formatCount(of(queue)),
  })
  return [
    { title: 'QUEUE', value: ({ name }) => name, shown: ({ name, key }) => name ?? `key ${key}` },
    namespaceColumn(queues),
    count('READY', ({ ready }) => ready),
    { ...count('RUNNING', ({ running }) => running), colour: ({ running }) => (running > 0 ? 'green' : undefined) },
    count('WAITING', ({ waiting }) => waiting),
    { ...count('FAILED', ({ buried }) => buried), colour: ({ buried }) => (buried > 0 ? 'red' : undefined) },
    {
      title: 'WORKERS',
      value: ({ workers }) => workers,
      colour: ({ workers, ready }) => (workers === 0 && ready > 0 ? 'red' : undefined),
    },
    {
      title: 'PAUSED',
      value: ({ pausedAt }) => pausedAt,
      shown: ({ pausedForMs }) => (pausedForMs === null ? '' : `for ${formatDuration(pausedForMs)}`),
      colour: () => 'yellow',
    },
  ]
}

/** Formats a count, such as `10000+`. Counting stops at 10,000. */
export function formatCount(jobs: number): string | number {
  return jobs > maxCounted ? `${maxCounted}+` : jobs
}
