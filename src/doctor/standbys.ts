import { type Finding, finding, listed } from './finding.js'
import type { Check } from './patient.js'

interface Standby {
  name: string
  state: string | null
  sync_state: string | null
}

/** What a failover may forget. */
export const standbys: Check = {
  name: 'standbys',
  needsSchema: false,
  async look(patient): Promise<Finding[]> {
    const all = await patient.ask<Standby>('standbys')
    const streaming = all.filter(({ state }) => state === 'streaming')
    if (streaming.length === 0 || streaming.some(({ sync_state }) => sync_state !== 'async')) return []
    return [
      finding({
        id: 'history-not-replicated',
        severity: 'note',
        seen: `No commit waits for a standby: ${listed(streaming.map(({ name }) => name))} ${streaming.length === 1 ? 'follows' : 'follow'} when they can`,
        why: 'A failover may forget the last moments: jobs that were enqueued, deliveries that were done, leases that were granted. Fences leap over what may be forgotten.',
        facts: { standbys: streaming.length },
        mend: {
          what: 'If that may not be: let commits wait for one of them. They then take the time of a journey more, and stop when no standby is left.',
          sql: ["alter system set synchronous_standby_names = 'ANY 1 (*)'", 'select pg_reload_conf()'],
        },
      }),
    ]
  },
}
