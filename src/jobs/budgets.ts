import { checkName, describe, type OptionRule, readOptions, UsageError, wholeNumber } from '../base/index.js'
import { type LaneOptions, type LanePolicy, readPolicy } from './lanes.js'

/** Limits of a budget. At least one of `max` and `rate` is necessary. */
export interface BudgetOptions extends Omit<LaneOptions, 'max'> {
  /** Maximum sum of the weights of the budget's jobs that run at the same time. By default, only `rate` limits the jobs. */
  max?: number | undefined
}

/** Limit that jobs of several queues and kinds share. */
export interface Budget {
  /** Name of the budget, unique in the namespace. */
  readonly name: string
  readonly policy: LanePolicy
  /** Returns the budget of one customer, tenant or account, with the same limits and the name `<name>:<key>`. */
  of(key: string | number): Budget
}

/** Budget that a job needs. `weight` is the job's share of the budget. The default is 1. */
export type BudgetUse = Budget | { readonly budget: Budget; readonly weight: number }

/** Group to which a job belongs, such as a customer. A group with a larger weight gets more turns. The default is 1. */
export type JobGroup = string | { readonly name: string; readonly weight?: number | undefined }

/** A budget that a job needs, in the form in which each job stores it. */
export interface PlannedBudget extends LanePolicy {
  readonly name: string
  readonly weight: number
}

/** Maximum sum of weights of a budget that has only a rate. */
const unlimited = 1_000_000
const maxBudgets = 10

const isBudget = (given: unknown): given is Budget => {
  const { name, policy } = (given ?? {}) as Partial<Budget>
  return typeof name === 'string' && typeof policy?.max === 'number'
}

/**
 * Defines a budget: a limit that jobs share, across queues, kinds and processes. A job that needs a budget waits in the
 * database until the budget has room. During the wait, the job occupies no worker slot.
 *
 * @example
 * const openai = defineBudget('openai', { max: 20 })
 * const perTenant = defineBudget('tenant-calls', { rate: '100/min' })
 * const summarize = defineJob('summarize', { budgets: [openai], run: async ({ text }: { text: string }) => summary(text) })
 * await holdfast.jobs.enqueue(summarize, { text }, { budgets: [perTenant.of(tenant)] })
 */
export function defineBudget(name: string, options: BudgetOptions): Budget {
  const given = (options ?? {}) as BudgetOptions
  const policy = readPolicy('budget', options, unlimited)
  if (given.max === undefined && given.rate === undefined) {
    throw new UsageError('Expected a budget with max or rate, got neither')
  }
  return budgetOf(checkName(name, 'the name of the budget'), policy)
}

function budgetOf(name: string, policy: LanePolicy): Budget {
  return Object.freeze({
    name,
    policy,
    of: (key: string | number) => {
      if (typeof key !== 'string' && typeof key !== 'number') {
        throw new UsageError(`Expected the key of a budget to be a string or a number, got ${describe(key)}`)
      }
      return budgetOf(checkName(`${name}:${key}`, 'the name of the budget'), policy)
    },
  })
}

export const budgetsRule: OptionRule<readonly PlannedBudget[]> = {
  expected: `a list of at most ${maxBudgets} budgets, or of { budget, weight }`,
  read(given) {
    if (!Array.isArray(given) || given.length > maxBudgets) return undefined
    const planned = given.map((one: unknown) => {
      if (isBudget(one)) return { name: one.name, weight: 1, ...one.policy }
      const { budget, weight, ...others } = (one ?? {}) as { budget?: unknown; weight?: unknown }
      if (!isBudget(budget) || Object.keys(others).length > 0) return undefined
      const { max, burst = max } = budget.policy
      const most = Math.min(max, burst)
      if (wholeNumber(1, most).read(weight) === undefined) {
        throw new UsageError(
          `Expected a weight from 1 to ${most} for the budget ${budget.name}, got ${describe(weight)}`,
          'A job cannot use more than the whole budget.',
        )
      }
      return { name: budget.name, weight: weight as number, ...budget.policy }
    })
    return planned.includes(undefined) ? undefined : (planned as PlannedBudget[])
  },
}

export const groupRule: OptionRule<{ readonly name: string; readonly weight: number }> = {
  expected: 'the name of a group, or { name, weight }',
  read(given) {
    if (typeof given === 'string') return { name: checkName(given, 'group'), weight: 1 }
    if (typeof given !== 'object' || given === null || Array.isArray(given)) return undefined
    const { name, weight = 1 } = readOptions('group', given, { name: groupName, weight: wholeNumber(1, 1_000) })
    return name === undefined ? undefined : { name, weight }
  },
}

const groupName = { expected: 'a name', read: (given: unknown) => checkName(given, 'group') }

/**
 * Returns a job's budgets: the definition's budgets and the call's budgets. A budget in the call replaces a budget with
 * the same name in the definition.
 */
export function mergeBudgets(all: readonly PlannedBudget[]): PlannedBudget[] {
  return [...new Map(all.map((one) => [one.name, one])).values()]
}
