import { type Finding, finding } from './finding.js'
import type { Check } from './patient.js'

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
  async look(patient): Promise<Finding[]> {
    const rows = await patient.ask<DeadRows>('dead_rows', [patient.schema, patient.patienceMs])
    return rows.map(({ table, dead, living, vacuumed, size }) =>
      finding({
        id: 'dead-rows',
        severity: 'risky',
        subject: table,
        seen: `${dead.toLocaleString('en-US')} dead rows lie in ${table} beside ${living.toLocaleString('en-US')} living ones (${size}); it was ${vacuumed ? `last vacuumed ${vacuumed}` : 'never vacuumed'}`,
        why: 'Every look at the table walks over them.',
        facts: { table, dead, living, vacuumed, size },
        mend: {
          what: 'Vacuum it. Where that takes nothing away, something holds vacuum back: see the other findings.',
          sql: [`vacuum (analyze) ${patient.named(table)}`],
          fixable: true,
        },
      }),
    )
  },
}
