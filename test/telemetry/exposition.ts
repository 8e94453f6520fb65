// Reads the Prometheus text format, version 0.0.4. Throws an error for text that it does not understand.

export interface Family {
  readonly type: string
  readonly help: string
  readonly samples: { readonly name: string; readonly labels: Record<string, string>; readonly value: number }[]
}

const metricName = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const label = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"'
const line = new RegExp(`^(${metricName})(?:\\{(${label}(?:,${label})*)\\})? (NaN|[+-]Inf|-?[0-9.]+(?:e[+-]?[0-9]+)?)$`)

export function readExposition(text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('The last line does not end with a newline')
  const families = new Map<string, Family>()
  const identities = new Set<string>()
  let current: { name: string; family: Family } | undefined
  let help: { name: string; text: string } | undefined
  for (const one of text.slice(0, -1).split('\n')) {
    const [, helpFor, helpText] = new RegExp(`^# HELP (${metricName}) (.+)$`).exec(one) ?? []
    const [, typeFor, type] = new RegExp(`^# TYPE (${metricName}) (counter|gauge|histogram)$`).exec(one) ?? []
    if (helpFor) help = { name: helpFor, text: helpText! }
    else if (typeFor) {
      if (help?.name !== typeFor) throw new Error(`No help before ${one}`)
      if (families.has(typeFor)) throw new Error(`Duplicate: ${one}`)
      current = { name: typeFor, family: { type: type!, help: help.text, samples: [] } }
      families.set(typeFor, current.family)
    } else {
      const [, name, labels, value] = line.exec(one) ?? []
      if (!name || !current) throw new Error(`Cannot be parsed: ${one}`)
      const suffixes = current.family.type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
      if (!suffixes.some((suffix) => name === current!.name + suffix)) throw new Error(`In the wrong family: ${one}`)
      if (current.family.type === 'counter' && !name.endsWith('_total'))
        throw new Error(`A counter without the suffix _total: ${one}`)
      const identity = one.slice(0, one.lastIndexOf(' '))
      if (identities.has(identity)) throw new Error(`Duplicate: ${one}`)
      identities.add(identity)
      const pairs = [...(labels ?? '').matchAll(/([a-zA-Z0-9_]+)="((?:[^"\\]|\\.)*)"/g)]
      const read = Object.fromEntries(
        pairs.map(([, key, text]) => [key, text!.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c))]),
      )
      current.family.samples.push({ name, labels: read, value: Number(value!.replace('Inf', 'Infinity')) })
    }
  }
  for (const [name, { type, samples }] of families) if (type === 'histogram') checkHistogram(name, samples)
  return families
}

function checkHistogram(name: string, samples: Family['samples']): void {
  const series = new Map<string, Family['samples']>()
  for (const one of samples) {
    const { le: _, ...labels } = one.labels
    const key = JSON.stringify(labels)
    series.set(key, [...(series.get(key) ?? []), one])
  }
  for (const [key, all] of series) {
    const steps = all.filter((one) => one.name === `${name}_bucket`)
    const bounds = steps.map(({ labels }) => (labels.le === '+Inf' ? Infinity : Number(labels.le)))
    const rises = (numbers: number[], strictly: boolean) =>
      numbers.every((n, at) => at === 0 || (strictly ? n > numbers[at - 1]! : n >= numbers[at - 1]!))
    const count = all.find((one) => one.name === `${name}_count`)
    if (!rises(bounds, true) || bounds.at(-1) !== Infinity)
      throw new Error(`The bounds of ${name}${key} do not increase to +Inf`)
    if (
      !rises(
        steps.map(({ value }) => value),
        false,
      )
    )
      throw new Error(`The buckets of ${name}${key} decrease`)
    if (count?.value !== steps.at(-1)!.value) throw new Error(`The count of ${name}${key} differs from its last bucket`)
    if (!all.some((one) => one.name === `${name}_sum`)) throw new Error(`No sum of ${name}${key}`)
  }
}
