import type { Check } from './doctor-context.js'
import { type Finding, finding } from './finding.js'

interface DeadRows {
  table: string
  dead: number
  living: number
  vacuumed: string | null
  size: string
}

/** Whether vacuum keeps pace with the tables of Holdfast. */
export const tables: Check = {
  name: 'dead rows in the tables',
  needsSchema: true,
  async run(context): Promise<Finding[]> {
    const rows = await context.query<DeadRows>('dead_rows', [context.schema, context.toleranceMs])
    return rows.map(({ table, dead, living, vacuumed, size }) =>
      finding({
        id: 'dead-rows',
        severity: 'risky',
        subject: table,
        text: `${dead.toLocaleString('en-US')} dead rows lie in ${table} beside ${living.toLocaleString('en-US')} living ones (${size}); it was ${vacuumed ? `last vacuumed ${vacuumed}` : 'never vacuumed'}`,
        why: 'Every look at the table walks over them.',
        facts: { table, dead, living, vacuumed, size },
        fix: {
          text: 'Vacuum it. Where that takes nothing away, something holds vacuum back: see the other findings.',
          sql: [`vacuum (analyze) ${context.qualifiedName(table)}`],
          fixable: true,
        },
      }),
    )
  },
}
