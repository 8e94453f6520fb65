import { backoffMs, describe, pause, UsageError } from '../base/index.js'
import type { TickRule } from '../cron/index.js'
import type { Definition } from './definition.js'
import type { Rules } from './rules.js'
import type { ScheduleRow } from './status.js'
import type { ScheduleStore } from './store.js'
import { firstTicks, planSettlement } from './ticks.js'

/**
 * Change to a schedule: adopts the rule and options in this process's code, overrides the rule, or resumes the
 * schedule.
 */
export type Change =
  | { readonly what: 'rule'; readonly definition: Definition }
  | { readonly what: 'override'; readonly rule: string | null }
  | { readonly what: 'resume' }

interface ChangesOptions {
  readonly store: ScheduleStore
  readonly namespace: string
  readonly rules: Rules
  readonly closing: AbortSignal
  readonly onChanged: (key: string) => void
}

const maxTries = 50

/**
 * Changes schedules. The statement that changes a rule also settles the old rule's due ticks. The due ticks are
 * computed from the row that was read. If the row has changed since then, the change is retried.
 */
export class Changes {
  readonly #options: ChangesOptions

  constructor(options: ChangesOptions) {
    this.#options = options
  }

  async make(key: string, name: string, change: Change): Promise<void> {
    const { store, namespace, closing, onChanged } = this.#options
    for (let attempt = 0; attempt < maxTries; attempt++) {
      const [row] = await store.find(key, namespace)
      if (!row) throw await store.unknown(name, namespace)
      const [answer] = await store.run<{ answer: string }>('change', [JSON.stringify(this.#request(row, change))])
      if (answer!.answer === 'changed') {
        onChanged(row.key)
        return
      }
      // The schedule was changed, or one of its ticks was settled, after its row was read. Tries again with the new
      // row.
      await pause(backoffMs(attempt, 5, 200), closing)
      closing.throwIfAborted()
    }
    throw new UsageError(
      `The schedule "${name}" could not be changed, because it was modified during each of ${maxTries} attempts`,
      'Stop the process that keeps changing the schedule, and try again.',
    )
  }

  #request(row: ScheduleRow, change: Change): object {
    const before = row.override ?? row.rule
    const rule = this.#readable(before)
    const { what } = change
    const next = row.next_ms === null ? null : new Date(row.next_ms)
    const due =
      next === null
        ? {}
        : planSettlement(rule, row.next_ms!, row.now_ms, Math.max(1, row.catch_up), row.first_member_ms ?? undefined)
    const request = { id: row.key, code_rule: row.rule, rule: before, next_at: next, ...due, what }
    if (what === 'resume') return request
    const newRule = what === 'override' ? change.rule : change.definition.rule.text
    const after = what === 'override' ? (newRule ?? row.rule) : (row.override ?? newRule!)
    // If the database clock was set back, ticks after now are already settled.
    const { ticks, isOver } = firstTicks(this.#readable(after), Math.max(row.now_ms, row.settled_ms ?? 0))
    const candidates = { new_rule: newRule, first_ticks: ticks, first_ticks_are_all: isOver }
    if (what === 'override') return { ...request, ...candidates }
    const { overlap, missed, catchUp, reruns } = change.definition
    return { ...request, ...candidates, overlap, missed, catch_up: catchUp, reruns }
  }

  #readable(text: string): TickRule {
    const rule = this.#options.rules.of(text)
    if (rule) return rule
    throw new UsageError(
      `This version of Holdfast cannot read the rule ${describe(text)}`,
      'A newer version of Holdfast wrote the rule. Update Holdfast in this process.',
    )
  }
}
