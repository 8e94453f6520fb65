import type { Diagnosis, Finding, Fix, Severity } from '../../doctor/index.js'
import { type Colour, type Column, paint, plainColumns, printRows, visible, worstInView, write } from '../output.js'
import type { Settings } from '../settings.js'
import { wrap } from '../table.js'

/** Maximum line width of prose, because longer lines are hard to read. */
const maxWidth = 100
const indent = 2
const labelWidth = 8
/** Maximum number of lines that are printed from a statement. The JSON output contains all lines. */
const maxLines = 4
const maxStatements = 6

const headings: Record<Severity, { title: string; colour: Colour }> = {
  wrong: { title: 'WRONG', colour: 'red' },
  risky: { title: 'RISKY', colour: 'yellow' },
  unchecked: { title: 'NOT CHECKED', colour: 'yellow' },
  note: { title: 'NOTE', colour: 'dim' },
}

/**
 * Prints the findings: grouped by severity on a terminal, so that the worst findings are visible, or one finding per
 * line when the output is piped.
 */
export function printFindings(settings: Settings, diagnosis: Diagnosis): void {
  if (settings.flag('jsonl') || !process.stdout.isTTY) {
    printRows<'doctor'>(settings, diagnosis.findings, columns)
    return
  }
  const { address, schema, server, findings } = diagnosis
  const where = wrap(visible(`${address}, schema ${schema}, ${server}`), process.stdout.columns || 80)
  write(where.map((line) => paint(settings, line, 'dim')))
  const severities = [...new Set(findings.map(({ severity }) => severity))]
  const blocks = severities.map((severity) => {
    const { title, colour } = headings[severity]
    const own = findings.filter((finding) => finding.severity === severity)
    return ['', paint(settings, title, colour), ...own.flatMap((finding) => ['', ...linesOf(settings, finding)])]
  })
  write(worstInView(blocks).flat())
  if (findings.length > 0) write([''])
}

const columns: Column<Finding>[] = [
  ...plainColumns<Finding>({ SEVERITY: 'severity', FINDING: 'id', SUBJECT: 'subject', FOUND: 'text' }),
  { title: 'FIX', value: ({ fix }) => [...fix.commands, ...fix.sql].join('; ') || fix.text },
]

/** Returns a finding's title, such as `dead-rows: job`. */
export function titleOf({ id, subject }: Finding): string {
  return visible(subject === null ? id : `${id}: ${subject}`)
}

function linesOf(settings: Settings, finding: Finding): string[] {
  const room = Math.min(process.stdout.columns || 80, maxWidth) - indent
  const field = (title: string, text: string) => {
    const [first, ...rest] = wrap(visible(text), room - labelWidth)
    const blank = ' '.repeat(labelWidth)
    return [`${paint(settings, title.padEnd(labelWidth), 'dim')}${first}`, ...rest.map((line) => blank + line)]
  }
  const { text: seen, why, fix } = finding
  const lines = [
    titleOf(finding),
    ...field('found', `${seen}.`),
    ...field('why', why),
    ...field('fix', `${fix.text}${fix.fixable ? ' (use --fix to apply)' : ''}`),
    ...shortFix(fix, ' '.repeat(labelWidth + 2)),
  ]
  return lines.map((line) => ' '.repeat(indent) + line)
}

/** Returns commands and SQL statements that users can copy. Shortens long statements. */
export function shortFix({ commands, sql }: Fix, indent: string): string[] {
  const more = sql.length - maxStatements
  return [
    ...commands,
    ...sql.slice(0, maxStatements).flatMap(shortenStatement),
    ...(more > 0 ? [`-- … and ${more} more statements (use --json to see all)`] : []),
  ].map((line) => indent + visible(line))
}

function shortenStatement(statement: string): string[] {
  const lines = statement.split('\n')
  if (lines.length <= maxLines) return [...lines.slice(0, -1), `${lines.at(-1)};`]
  return [...lines.slice(0, maxLines - 1), `-- … ${lines.length - maxLines + 1} more lines (use --json to see all)`]
}
