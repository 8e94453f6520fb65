import type { Check } from './doctor-context.js'
import { type Finding, finding } from './finding.js'

interface DeadRows {
  table: string
  dead: number
  living: number
  vacuumed: string | null
  size: string
}

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
        text: `The table ${table} (${size}) contains ${dead.toLocaleString('en-US')} dead rows and ${living.toLocaleString('en-US')} live rows. The table was ${vacuumed ? `last vacuumed ${vacuumed}` : 'never vacuumed'}`,
        why: 'Every scan of the table also reads the dead rows.',
        facts: { table, dead, living, vacuumed, size },
        fix: {
          text: 'Vacuum the table. If this removes no rows, something prevents vacuum from removing them. See the other findings.',
          sql: [`vacuum (analyze) ${context.qualifiedName(table)}`],
          fixable: true,
        },
      }),
    )
  },
}
