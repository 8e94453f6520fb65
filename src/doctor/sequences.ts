import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding } from './finding.js'

interface SequenceBehind {
  readonly sequence: string
  readonly reached: string
  readonly largest: string
}

const numbersOf: Record<string, string> = {
  fence: 'fencing tokens',
  job_number: 'job ids',
  session: 'session numbers',
  wait_order: 'places in the queues of limits',
  audit_number: 'ids of the audit',
}

/** Whether the sequences are ahead of the tables that they number: not where tables were copied without them. */
export const sequences: Check = {
  name: 'the sequences, and the tables that they number',
  needsSchema: true,
  async run(context): Promise<Finding[]> {
    // An older schema lacks some of the tables.
    if (context.pending > 0) return []
    const [fencing] = await context.query<{ there: boolean }>('server_generation')
    const behind = await context.query<SequenceBehind>('sequences')
    return [...(fencing!.there ? [] : [fencingMissing(context)]), ...behind.map((one) => sequenceBehind(context, one))]
  },
}

function sequenceBehind(context: DoctorContext, { sequence, reached, largest }: SequenceBehind): Finding {
  return finding({
    id: 'sequence-behind',
    severity: 'wrong',
    subject: sequence,
    text: `The sequence ${sequence} is at ${reached}, but the tables already contain ${largest}`,
    why: `It would give out ${numbersOf[sequence]} a second time. Logical replication copies tables and no sequences; a restore of single tables does the same.`,
    facts: { sequence, reached, largest },
    fix: {
      text: 'Move it beyond the largest number. The first instance that opens does this as well.',
      sql: [`select ${context.qualifiedName('catch_up_sequences')}()`],
      fixable: true,
    },
  })
}

function fencingMissing(context: DoctorContext): Finding {
  return finding({
    id: 'fencing-missing',
    severity: 'wrong',
    text: 'The table server_generation is empty',
    why: 'Its one row shows whether the server was restarted or restored. Without it nothing is granted until an instance opens or reconnects, which writes the row again.',
    fix: {
      text: 'Write it again. A new generation begins.',
      sql: [`select ${context.qualifiedName('advance_fence')}()`],
      fixable: true,
    },
  })
}
