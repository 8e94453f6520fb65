import type { Check } from './doctor-context.js'
import { finding, formatList } from './finding.js'

interface Standby {
  name: string
  state: string | null
  sync_state: string | null
}

export const standbys: Check = {
  name: 'standbys',
  async run(context) {
    const all = await context.query<Standby>('standbys')
    const streaming = all.filter(({ state }) => state === 'streaming')
    if (streaming.length === 0 || streaming.some(({ sync_state }) => sync_state !== 'async')) return undefined
    return finding({
      id: 'history-not-replicated',
      severity: 'note',
      text: `No commit waits for a standby: ${formatList(streaming.map(({ name }) => name))} ${streaming.length === 1 ? 'replicates' : 'replicate'} asynchronously`,
      why: 'A failover can lose the most recent jobs, deliveries and leases. Fencing tokens still never repeat, because they skip the range that can be lost.',
      facts: { standbys: streaming.length },
      fix: {
        text: 'If you cannot accept this loss, make commits wait for a standby. Each commit then takes one network round trip longer, and commits block while no standby is connected.',
        sql: ["alter system set synchronous_standby_names = 'ANY 1 (*)'", 'select pg_reload_conf()'],
      },
    })
  },
}
