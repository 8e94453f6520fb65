import { commandLine, formatDuration } from '../base/index.js'
import type { Check } from './doctor-context.js'
import { finding, maxListed } from './finding.js'

interface Orphan {
  namespace: string
  name: string
  late_ms: number
}

export const schedules: Check = {
  name: 'schedules and their members',
  isOfFleet: true,
  needsSchema: true,
  async run(context) {
    const orphans = await context.query<Orphan>('orphaned_schedules')
    return orphans.slice(0, maxListed).map(({ namespace, name, late_ms }) =>
      finding({
        id: 'schedule-orphan',
        severity: 'risky',
        subject: name,
        text: `No live instance defines the schedule ${name} (namespace ${namespace})${late_ms > 0 ? `, and its next tick is ${formatDuration(late_ms)} late` : ''}`,
        why: "This schedule's ticks do not run.",
        facts: { schedule: name, namespace, late_ms: Math.max(0, Math.round(late_ms)) },
        fix: {
          text: 'Start an instance that adds the schedule. If the schedule was permanently removed from the code, pause it:',
          commands: [commandLine('schedule pause', { namespace, schema: context.schema }, name)],
        },
      }),
    )
  },
}
