import type { Check } from './doctor-context.js'
import { type Finding, finding, formatList } from './finding.js'

interface Standby {
  name: string
  state: string | null
  sync_state: string | null
}

/** What a failover may forget. */
export const standbys: Check = {
  name: 'standbys',
  needsSchema: false,
  async run(context): Promise<Finding[]> {
    const all = await context.query<Standby>('standbys')
    const streaming = all.filter(({ state }) => state === 'streaming')
    if (streaming.length === 0 || streaming.some(({ sync_state }) => sync_state !== 'async')) return []
    return [
      finding({
        id: 'history-not-replicated',
        severity: 'note',
        text: `No commit waits for a standby: ${formatList(streaming.map(({ name }) => name))} ${streaming.length === 1 ? 'follows' : 'follow'} when they can`,
        why: 'A failover may forget the last moments: jobs that were enqueued, deliveries that were done, leases that were granted. Fences leap over what may be forgotten.',
        facts: { standbys: streaming.length },
        fix: {
          text: 'If that may not be: let commits wait for one of them. They then take the time of a journey more, and stop when no standby is left.',
          sql: ["alter system set synchronous_standby_names = 'ANY 1 (*)'", 'select pg_reload_conf()'],
        },
      }),
    ]
  },
}
