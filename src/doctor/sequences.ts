import { type Finding, finding } from './finding.js'
import type { Check, Patient } from './patient.js'

interface Behind {
  readonly sequence: string
  readonly reached: string
  readonly largest: string
}

const numbersOf: Record<string, string> = {
  fence: 'fencing tokens',
  job_number: 'job ids',
  session: 'session numbers',
  ticket: 'places in the queues of limits',
  audit_number: 'ids of the audit',
}

/** Whether the sequences are ahead of the tables that they number: not where tables were copied without them. */
export const sequences: Check = {
  name: 'the sequences, and the tables that they number',
  needsSchema: true,
  async look(patient): Promise<Finding[]> {
    // An older schema lacks some of the tables.
    if (patient.pending > 0) return []
    const [fencing] = await patient.ask<{ there: boolean }>('fencing')
    const behind = await patient.ask<Behind>('sequences')
    return [...(fencing!.there ? [] : [fencingMissing(patient)]), ...behind.map((one) => isBehind(patient, one))]
  },
}

function isBehind(patient: Patient, { sequence, reached, largest }: Behind): Finding {
  return finding({
    id: 'sequence-behind',
    severity: 'wrong',
    subject: sequence,
    seen: `The sequence ${sequence} is at ${reached}, but the tables already contain ${largest}`,
    why: `It would give out ${numbersOf[sequence]} a second time. Logical replication copies tables and no sequences; a restore of single tables does the same.`,
    facts: { sequence, reached, largest },
    mend: {
      what: 'Move it beyond the largest number. The first instance that opens does this as well.',
      sql: [`select ${patient.named('catch_up_sequences')}()`],
      fixable: true,
    },
  })
}

function fencingMissing(patient: Patient): Finding {
  return finding({
    id: 'fencing-missing',
    severity: 'wrong',
    seen: 'The table fencing is empty',
    why: 'Its one row shows whether the server was restarted or restored. Without it nothing is granted until an instance opens or reconnects, which writes the row again.',
    mend: {
      what: 'Write it again. A new generation begins.',
      sql: [`select ${patient.named('advance_fence')}()`],
      fixable: true,
    },
  })
}
