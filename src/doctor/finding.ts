import type { findingIds } from '../base/index.js'

/**
 * Severity of a finding. `wrong`: something does not work, or a guarantee is broken. `risky`: everything works now, but
 * a future event can break it. `unchecked`: the check could not run. `note`: for information only.
 */
export type Severity = 'wrong' | 'risky' | 'unchecked' | 'note'

/** Kind of a finding. Each kind is explained in docs/operating/doctor.md. */
export type FindingId = (typeof findingIds)[number]

/**
 * A number or a name that a finding reports.
 *
 * @fraction
 */
export type Fact = string | number | boolean | null

/**
 * Instructions for fixing a finding. If there are no SQL statements and no commands, the text contains the complete
 * advice.
 */
export interface Fix {
  /** Description of the fix as a sentence. */
  readonly text: string
  /** Statements that fix the finding. Run them one at a time, in this order, outside a transaction. */
  readonly sql: readonly string[]
  /** Shell commands that fix the finding. */
  readonly commands: readonly string[]
  /** Whether the fix is safe. `holdfast doctor --fix` applies only safe fixes. */
  readonly fixable: boolean
}

/** A problem or a note that the doctor reports. */
export interface Finding {
  /** Kind of the finding. Each kind is explained in docs/operating/doctor.md. */
  readonly id: FindingId
  /** Severity of the finding. */
  readonly severity: Severity
  /**
   * Subject of the finding, such as a session, a queue or a setting. Null if the doctor reports this kind of finding at
   * most once.
   */
  readonly subject: string | null
  /** Description of the finding as a sentence. */
  readonly text: string
  /** Reason why the finding matters. */
  readonly why: string
  /** Numbers and names that the finding reports, in machine-readable form. */
  readonly facts: Readonly<Record<string, Fact>>
  /** Instructions for fixing the finding. */
  readonly fix: Fix
}

/** Parameter of the `finding` function, which adds the defaults. */
export type FindingInput = Omit<Finding, 'subject' | 'facts' | 'fix'> & {
  readonly subject?: string | null
  readonly facts?: Readonly<Record<string, Fact>>
  readonly fix: Partial<Fix> & Pick<Fix, 'text'>
}

export function finding({ subject = null, facts = {}, fix, ...given }: FindingInput): Finding {
  return { ...given, subject, facts, fix: { sql: [], commands: [], fixable: false, ...fix } }
}

const order: readonly Severity[] = ['wrong', 'risky', 'unchecked', 'note']

/** Sorts by severity. Findings with the same severity stay in the order of the checks. */
export function worstFirst(findings: readonly Finding[]): Finding[] {
  return order.flatMap((severity) => findings.filter((one) => one.severity === severity))
}

export function needsAction({ severity }: Pick<Finding, 'severity'>): boolean {
  return severity === 'wrong' || severity === 'risky'
}

/** Formats a count with its noun, such as `3 jobs` or `1 job`. */
export function formatCount(count: number, thing: string): string {
  return `${count.toLocaleString('en-US')} ${count === 1 ? thing : pluralOf(thing)}`
}

/** Starts a sentence about names, such as `The table a is` or `The tables a and b are`. */
export function theNamesAre(thing: string, names: readonly string[]): string {
  return names.length === 1 ? `The ${thing} ${names[0]} is` : `The ${pluralOf(thing)} ${formatList(names)} are`
}

function pluralOf(thing: string): string {
  return thing.endsWith('x') ? `${thing}es` : `${thing}s`
}

/** Maximum number of findings of one kind. */
export const maxListed = 20

/** Formats a list, such as `a, b and c` or `a, b and 3 more`. */
export function formatList(words: readonly string[], max = 6): string {
  if (words.length > max) return `${words.slice(0, max).join(', ')} and ${words.length - max} more`
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`
}
