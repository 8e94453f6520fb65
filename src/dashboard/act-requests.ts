import { type ActContext, type ActName, AuditedActs, Operator, readActName } from '../acts/index.js'
import { describe, flag, type OptionRule, readOptions, UsageError } from '../base/index.js'
import type { DashboardContext } from './dashboard-context.js'
import type { AuthenticatedVisitor } from './guard.js'
import { Refusal } from './refusal.js'
import { errorDetails } from './views/jobs.js'
import type { ActResponse, PreviewResponse } from './wire.js'

const maxReasonLength = 1_000

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

/** Checks visitors' rights and runs their acts. */
export class ActRequests {
  readonly #context: DashboardContext
  readonly #readOnly: boolean
  readonly #acts: AuditedActs

  constructor(context: DashboardContext, readOnly: boolean) {
    const { executor, schema, observer, asMember, redact, audit } = context.viewContext
    const errorLine: ActContext['errorLine'] = (error, of) => {
      const { name, message } = errorDetails(redact(error, { what: 'job error', of }))
      return [name && `${name}:`, message].filter(Boolean).join(' ')
    }
    this.#context = context
    this.#readOnly = readOnly
    this.#acts = new AuditedActs({ observer, operator: new Operator(executor, schema), asMember, errorLine }, audit)
  }

  rightsOf({ rights }: AuthenticatedVisitor): readonly ActName[] {
    return this.#readOnly ? [] : rights
  }

  async handle(act: string, body: unknown, visitor: AuthenticatedVisitor): Promise<PreviewResponse | ActResponse> {
    const name = readActName(act)
    if (this.#readOnly) {
      const hint = 'The dashboard was created with the readOnly option.'
      throw new Refusal(403, 'READ_ONLY', 'This dashboard is read-only', hint)
    }
    if (!visitor.rights.includes(name)) {
      const hint = 'The auth function must grant this right to the visitor.'
      throw new Refusal(403, 'FORBIDDEN', `${visitor.name} does not have the right ${name}`, hint)
    }
    if (typeof body !== 'object' || body === null) throw new UsageError(`Expected an object, got ${describe(body)}`)
    const { params = {}, preview = false, reason } = readOptions(name, body, rules)
    const request = { name, params, actor: visitor.name, reason }
    await this.#context.ready()
    if (preview) return { consequence: await this.#acts.preview(request) }
    const { result: _, ...outcome } = await this.#acts.run(request)
    return { outcome }
  }
}
