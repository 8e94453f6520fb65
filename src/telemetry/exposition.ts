/** Prometheus text format, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/ */
export const contentType = 'text/plain; version=0.0.4; charset=utf-8'

type Labels = Readonly<Record<string, string>>

/** Returns a metric family: its header and one line per sample. */
export function family(
  name: string,
  type: 'counter' | 'gauge' | 'histogram',
  help: string,
  samples: readonly string[],
): string {
  if (samples.length === 0) return ''
  const explained = help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  return `# HELP ${name} ${explained}\n# TYPE ${name} ${type}\n${samples.join('\n')}\n`
}

export function sample(name: string, labels: Labels, value: number): string {
  return `${name}${formatLabels(labels)} ${formatNumber(value)}`
}

function formatLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${prometheusLabel(label)}="${escapeLabel(value)}"`)
  return pairs.length > 0 ? `{${pairs.join(',')}}` : ''
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function formatNumber(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (Number.isFinite(value)) return String(value)
  return value > 0 ? '+Inf' : '-Inf'
}

/** Converts an OpenTelemetry name to a Prometheus name. */
export function prometheusLabel(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_]/g, '_')
}
