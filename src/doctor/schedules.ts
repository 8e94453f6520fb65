import { commandFor, formatDuration } from '../base/index.js'
import { finding, mostTold } from './finding.js'
import type { Check } from './patient.js'

interface Orphan {
  namespace: string
  name: string
  late_ms: number
}

/** Schedules whose ticks have nobody to run on. */
export const schedules: Check = {
  name: 'schedules and their members',
  needsSchema: true,
  async look(patient) {
    const orphans = await patient.ask<Orphan>('orphans')
    return orphans.slice(0, mostTold).map(({ namespace, name, late_ms }) =>
      finding({
        id: 'schedule-orphan',
        severity: 'risky',
        subject: name,
        seen: `No living instance has the schedule ${name} (namespace ${namespace}) in its code${late_ms > 0 ? `; its next tick is ${formatDuration(late_ms)} late` : ''}`,
        why: 'Its ticks pass without a run.',
        facts: { schedule: name, namespace, late_ms: Math.max(0, Math.round(late_ms)) },
        mend: {
          what: 'Start an instance that adds it. If it was taken out of the code for good, pause it:',
          commands: [commandFor('schedule pause', { namespace, schema: patient.schema }, name)],
        },
      }),
    )
  },
}
