import { commandLine, formatDuration } from '../base/index.js'
import { ruleFromText } from '../cron/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding, maxListed } from './finding.js'

interface Orphan {
  namespace: string
  name: string
  late_ms: number
}

interface UnplannedSchedule {
  namespace: string
  name: string
  rule: string
}

export const schedules: Check = {
  name: 'schedules and their members',
  isOfFleet: true,
  needsSchema: true,
  async run(context) {
    const orphans = await context.query<Orphan>('orphaned_schedules')
    const unreadable = await findUnreadable(context)
    const orphaned = orphans.slice(0, maxListed).map(({ namespace, name, late_ms }) =>
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
    return [...orphaned, ...unreadable]
  },
}

/** SQL cannot parse cron rules, so `holdfast.schedule_upsert` accepts rules that no instance can read. */
async function findUnreadable(context: DoctorContext): Promise<Finding[]> {
  const unplanned = await context.query<UnplannedSchedule>('unplanned_schedules')
  const unreadable = unplanned.filter(({ rule }) => !isReadable(rule))
  return unreadable.slice(0, maxListed).map(({ namespace, name, rule }) =>
    finding({
      id: 'schedule-unreadable',
      severity: 'risky',
      subject: name,
      text: `This version of Holdfast cannot read the rule of the stored schedule ${name} (namespace ${namespace}): ${rule}`,
      why: "This schedule's ticks do not run, unless an instance with a newer version of Holdfast has written the rule.",
      facts: { schedule: name, namespace, rule },
      fix: {
        text: 'Correct the rule with schedules.upsert or holdfast.schedule_upsert. If a newer version has written the rule, run the doctor of that version.',
      },
    }),
  )
}

function isReadable(rule: string): boolean {
  try {
    ruleFromText(rule)
    return true
  } catch {
    return false
  }
}
