import { type ActContext, type ActName, type AnyAct, acts, Operator, type Outcome, readParams } from '../acts/index.js'
import { describe, flag, type OptionRule, readOptions, suggest, UsageError } from '../base/index.js'
import type { DashboardContext } from './dashboard-context.js'
import type { AuthenticatedVisitor } from './guard.js'
import { Refusal } from './refusal.js'
import { errorBody } from './serialize.js'
import { errorDetails } from './views/jobs.js'
import type { ActResponse, PreviewResponse } from './wire.js'

const maxReasonLength = 1_000
/** Time limit for an act with many steps. A visitor is waiting for the response. */
const budgetMs = 15_000

const rules = {
  params: {
    expected: 'an object',
    read: (given) => (typeof given === 'object' && given !== null ? given : undefined),
  } as OptionRule<object>,
  preview: flag,
  reason: {
    expected: `a string of at most ${maxReasonLength} characters`,
    read: (given) => (typeof given === 'string' && given.length <= maxReasonLength ? given : undefined),
  } as OptionRule<string>,
}

/** Runs visitors' acts and records each act in the audit log. */
export class AuditedActs {
  readonly #context: DashboardContext
  readonly #readOnly: boolean
  readonly #operator: Operator

  constructor(context: DashboardContext, readOnly: boolean) {
    const { executor, schema } = context.viewContext
    this.#context = context
    this.#readOnly = readOnly
    this.#operator = new Operator(executor, schema)
  }

  rightsOf({ rights }: AuthenticatedVisitor): readonly ActName[] {
    return this.#readOnly ? [] : rights
  }

  async handle(name: string, body: unknown, visitor: AuthenticatedVisitor): Promise<PreviewResponse | ActResponse> {
    if (!Object.hasOwn(acts, name)) {
      const meant = suggest(name, Object.keys(acts))
      throw new UsageError(`There is no action ${describe(name)}`, meant && `Did you mean ${meant}?`)
    }
    if (this.#readOnly) {
      const hint = 'The dashboard was created with the option readOnly.'
      throw new Refusal(403, 'READ_ONLY', 'This dashboard is read-only', hint)
    }
    if (!visitor.rights.includes(name as ActName)) {
      const hint = 'The auth function must grant this right to the visitor.'
      throw new Refusal(403, 'FORBIDDEN', `${visitor.name} does not have the right ${name}`, hint)
    }
    const act = acts[name as ActName] as AnyAct
    if (typeof body !== 'object' || body === null) throw new UsageError(`Expected an object, got ${describe(body)}`)
    const { params: given = {}, preview = false, reason } = readOptions(name, body, rules)
    const params = readParams(name, given, act)
    await this.#context.ready()
    const context = this.#actContext(visitor, reason)
    const consequence = await act.preview(context, params)
    if (preview) return { consequence }
    const entry = await this.#context.viewContext.audit.begin(visitor.name, name, params, consequence, reason)
    const { done, text } = await this.#runAudited(entry, () => act.run(context, params))
    return { outcome: { done, text } }
  }

  #actContext({ name }: AuthenticatedVisitor, reason: string | undefined): ActContext {
    const { observer, asMember, redact } = this.#context.viewContext
    const errorLine: ActContext['errorLine'] = (error, of) => {
      const { name, message } = errorDetails(redact(error, { what: 'job error', of }))
      return [name && `${name}:`, message].filter(Boolean).join(' ')
    }
    return { observer, operator: this.#operator, asMember, errorLine, actor: name, reason, budgetMs }
  }

  async #runAudited(entry: string, run: () => Promise<Outcome>): Promise<Outcome> {
    let outcome: Outcome
    try {
      outcome = await run()
    } catch (error) {
      const { code, message } = errorBody(error)
      await this.#context.viewContext.audit.end(entry, null, `${code}: ${message}`).catch(() => {})
      throw error
    }
    // The act has already run, so a failure to write the audit entry is ignored.
    await this.#context.viewContext.audit.end(entry, outcome.text, null).catch(() => {})
    return outcome
  }
}
