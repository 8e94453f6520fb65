import { once } from 'node:events'
import { UsageError } from '../../base/index.js'
import type { Observer } from '../../observe/index.js'
import { type JobSearch, searchStateOf } from '../../search/index.js'
import { observe } from '../connect.js'
import { printMessage } from '../failure.js'
import { countText } from '../output.js'
import type { Settings } from '../settings.js'
import { readSearchOptions } from './filter.js'

const endedStates = ['done', 'buried', 'cancelled', 'expired', 'discarded'] as const
/** Number of jobs per statement. An input and a result can have up to 1 MB each. */
const pageSize = 200

/** Prints ended jobs completely, one JSON object per line. */
export async function jobExport(settings: Settings): Promise<void> {
  settings.oneOf('format', 'jsonl')
  const search = readSearchOptions(settings)
  const states = endedStates.filter((state) => search.states.includes(state))
  if (states.length === 0) {
    const given = search.states.map((state) => searchStateOf({ state, waits: null })).join(' or ')
    throw new UsageError(`Expected the state of ended jobs, got ${given}`)
  }
  const namespace = settings.name('namespace')
  const count = await observe(settings, async (observer) => {
    let exported = 0
    for await (const lines of exportOf(observer, { ...search, states }, namespace)) {
      exported += lines.length
      // Waits until the reader has room, so that a slow reader does not fill the memory.
      if (lines.length > 0 && !process.stdout.write(`${lines.join('\n')}\n`)) await once(process.stdout, 'drain')
    }
    return exported
  })
  printMessage(`Exported ${countText(count, 'job')}.`)
}

async function* exportOf({ jobs }: Observer, search: JobSearch, namespace: string | undefined) {
  for (let after: string | undefined; ; ) {
    const { rows, next } = await jobs.matching(search, { namespace, limit: pageSize, after })
    yield await jobs.exportOf(rows.map(({ id }) => id))
    if (next === null) return
    after = next
  }
}
