import { describeRule } from '../../cron/index.js'
import { maxRows, offset, view } from '../view.js'
import { logLinesOf } from './log-lines.js'

const rowsPerPage = 12
const maxTextLength = 20_000

export const schedules = {
  schedules: view({
    intervalMs: 2_000,
    params: { namespace: 'text', search: 'text', after: offset },
    async read({ observer }, { after = 0, ...only }) {
      const { rows, count } = await observer.schedules.list({ ...only, limit: maxRows, offset: after })
      const next = after + rows.length < count ? String(after + rows.length) : null
      return { rows: rows.map((row) => ({ ...row, ...formatRule(row.rule) })), count, next }
    },
  }),

  /** Tick timeline of one schedule, or of all schedules on one page. */
  'tick-timeline': view({
    intervalMs: 1_500,
    needs: { minutes: { number: [1, 2_880] }, steps: { number: [12, 240] } },
    params: { namespace: 'text', search: 'text', name: 'text', page: { number: [1, 1_000] } },
    async read({ observer }, { page = 1, ...only }) {
      const offset = (page - 1) * rowsPerPage
      return { ...(await observer.schedules.tickTimeline({ ...only, limit: rowsPerPage, offset })), page, rowsPerPage }
    },
  }),

  schedule: view({
    intervalMs: 2_000,
    needs: { namespace: 'text', name: 'text' },
    async read({ observer, redact }, { namespace, name }) {
      const found = await observer.schedules.find(namespace, name)
      if (!found) return null
      const { rule, codeRule, members, rules, runs, ...same } = found
      return {
        ...same,
        ...formatRule(rule),
        codeRule: formatRule(codeRule).rule,
        members: members.slice(0, maxRows).map(({ rule, ...member }) => ({ ...member, rule: formatRule(rule).rule })),
        runs: runs.map(({ error, ...run }) => ({
          ...run,
          error: error && textOf(redact(error, { what: 'run error', of: name })),
        })),
        rules: rules.map(({ since, rule }) => ({ since, rule: formatRule(rule).rule })),
      }
    },
  }),

  /** One run's log and complete error. Null if the run no longer exists. */
  'schedule-run': view({
    intervalMs: 2_000,
    needs: { namespace: 'text', name: 'text', tick: 'time' },
    params: { extra: 'flag' },
    async read({ observer, redact }, { namespace, name, tick, extra }) {
      const found = await observer.schedules.run(namespace, name, tick, extra)
      if (!found) return null
      const error = found.error && redact(found.error, { what: 'run error', of: name })
      return {
        error: error ? readableText(error) : null,
        log: logLinesOf(redact(found.log, { what: 'run log', of: name })),
      }
    },
  }),
}

function formatRule(rule: Parameters<typeof describeRule>[0]): { rule: string; timezone: string | null } {
  const { cron, timezone } = rule ?? {}
  return { rule: describeRule(rule), timezone: cron === undefined ? null : (timezone ?? 'UTC') }
}

/** Formats an error as `name: message`. Also formats other values, because `redact` may return any value. */
function textOf(error: unknown): string {
  const { name, message } = (error ?? {}) as Record<string, unknown>
  return typeof message === 'string' ? `${name}: ${message}` : readableText(error)
}

function readableText(payload: unknown): string {
  const text = typeof payload === 'string' ? payload : (JSON.stringify(payload, null, 2) ?? String(payload))
  return text.slice(0, maxTextLength)
}
