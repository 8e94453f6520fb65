// Reads which metrics and labels a PromQL expression uses. Does not evaluate the expression, and accepts only the part of the language that
// the dashboards and alert rules use.

export interface Selector {
  readonly metric: string
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[]
}

export interface Expression {
  readonly selectors: readonly Selector[]
  /** Labels in `by (…)` and `on (…)`, with the metrics that must have these labels. */
  readonly groupings: readonly { readonly labels: readonly string[]; readonly metrics: readonly string[] }[]
}

const functions = new Set('absent count delta histogram_quantile increase max rate sum time vector'.split(' '))
const operators = new Set(['and', 'or', 'unless', 'offset', 'bool'])
const token = /\s+|("(?:[^"\\]|\\.)*"|\$\w+|[a-zA-Z_:][\w:]*|\d+(?:\.\d+)?[smhd]?|=~|!~|!=|==|>=|<=|[-+*/(){}[\],<>=])/y

function tokensOf(text: string): string[] {
  const tokens: string[] = []
  token.lastIndex = 0
  while (token.lastIndex < text.length) {
    const at = token.lastIndex
    const match = token.exec(text)
    if (!match) throw new Error(`Cannot be parsed: ${text.slice(at)}`)
    if (match[1] !== undefined) tokens.push(match[1])
  }
  return tokens
}

export function readExpression(text: string): Expression {
  const tokens = tokensOf(text)
  const selectors: Selector[] = []
  const groupings: { labels: readonly string[]; metrics: readonly string[] }[] = []
  let at = 0

  const next = (expected?: string): string => {
    const found = tokens[at++]
    if (found === undefined || (expected !== undefined && found !== expected)) {
      throw new Error(`Expected ${expected ?? 'more'}, got ${found ?? 'the end'}: ${text}`)
    }
    return found
  }

  /** Reads up to the closing token, or to the end. */
  function group(closing?: string): void {
    while (tokens[at] !== closing) {
      const found = next()
      if (found === '(') group(')')
      else if (found === '[') while (next() !== ']');
      else if (/^[a-zA-Z_:]/.test(found)) word(found)
      else if (')]}'.includes(found)) throw new Error(`Unexpected ${found}: ${text}`)
    }
    if (closing !== undefined) next(closing)
  }

  function word(found: string): void {
    if (found === 'by') {
      const labels = labelList()
      const first = selectors.length
      next('(')
      group(')')
      groupings.push({ labels, metrics: selectors.slice(first).map(({ metric }) => metric) })
    } else if (found === 'on') {
      const labels = labelList()
      const before = selectors.at(-1)!.metric
      const first = selectors.length
      group(undefined)
      groupings.push({ labels, metrics: [before, ...selectors.slice(first).map(({ metric }) => metric)] })
    } else if (functions.has(found)) {
      if (!['(', 'by'].includes(tokens[at]!)) throw new Error(`Expected arguments of ${found}: ${text}`)
    } else if (!operators.has(found)) selectors.push({ metric: found, matchers: matcherList() })
  }

  function labelList(): string[] {
    const labels: string[] = []
    next('(')
    for (let label = next(); label !== ')'; label = next()) if (label !== ',') labels.push(label)
    return labels
  }

  function matcherList(): Selector['matchers'] {
    if (tokens[at] === '(') throw new Error(`Unknown function ${tokens[at - 1]}: ${text}`)
    if (tokens[at] !== '{') return []
    const matchers: { label: string; operator: string; value: string }[] = []
    next('{')
    for (let label = next(); label !== '}'; label = next()) {
      if (label !== ',') matchers.push({ label, operator: next(), value: JSON.parse(next()) })
    }
    return matchers
  }

  group()
  return { selectors, groupings }
}
