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
  wait_order: 'queue positions of limits',
  audit_number: 'audit ids',
}

/** Finds sequences that are behind their tables, for example because the tables were copied without the sequences. */
export const sequences: Check = {
  name: 'the sequences',
  needsSchema: true,
  async run(context) {
    // Skips this check, because an older schema may lack some of the tables.
    if (context.pending > 0) return undefined
    const [generation] = await context.query<{ there: boolean }>('server_generation')
    const behind = await context.query<SequenceBehind>('sequences')
    return [
      generation!.there ? undefined : generationMissing(context),
      ...behind.map((one) => sequenceBehind(context, one)),
    ]
  },
}

function sequenceBehind(context: DoctorContext, { sequence, reached, largest }: SequenceBehind): Finding {
  return finding({
    id: 'sequence-behind',
    severity: 'wrong',
    subject: sequence,
    text: `The sequence ${sequence} is at ${reached}, but the tables already contain ${largest}`,
    why: `The sequence would issue ${numbersOf[sequence]} a second time. This can happen after logical replication or after a restore of single tables, because neither copies sequences.`,
    facts: { sequence, reached, largest },
    fix: {
      text: 'Advance the sequence beyond the largest number. The next instance that opens also advances the sequence.',
      sql: [`select ${context.qualifiedName('catch_up_sequences')}()`],
      fixable: true,
    },
  })
}

function generationMissing(context: DoctorContext): Finding {
  return finding({
    id: 'server-generation-missing',
    severity: 'wrong',
    text: 'The table server_generation is empty',
    why: 'The only row of this table identifies the server generation. Without the row, no lock is granted until an instance opens or reconnects and inserts the row.',
    fix: {
      text: 'Insert the row. This starts a new generation.',
      sql: [`select ${context.qualifiedName('advance_fence')}()`],
      fixable: true,
    },
  })
}
