import { HoldfastError, isInstance, messageOf } from '../base/index.js'
import type { ActContext, AnyAct, Consequence, Outcome } from './act.js'
import { type ActName, acts } from './acts.js'
import type { Audit } from './audit.js'
import { type ParamKinds, readParams } from './params.js'

/** An act that a person or a program asks for, over a connection that has no rights of its own. */
export interface ActRequest {
  readonly name: ActName
  /** Parameters as received. */
  readonly params: object
  /** Name of the person or the program, for the audit log. */
  readonly actor: string
  readonly reason: string | undefined
}

/** Time limit for an act with many steps, because the requester is waiting for the outcome. */
const budgetMs = 5_000

/**
 * Runs acts and records each act in the audit log. The dashboard and the MCP server use this class. The caller checks the right to run the
 * act.
 */
export class AuditedActs {
  readonly #context: Omit<ActContext, 'actor' | 'reason' | 'budgetMs'>
  readonly #audit: Audit

  constructor(context: Omit<ActContext, 'actor' | 'reason' | 'budgetMs'>, audit: Audit) {
    this.#context = context
    this.#audit = audit
  }

  /** Returns the act's effects and changes nothing. */
  preview(request: ActRequest): Promise<Consequence> {
    const { act, context, params } = this.#prepare(request)
    return act.preview(context, params)
  }

  /** Runs the act. An act that cannot be recorded in the audit log does not run. */
  async run(request: ActRequest): Promise<Outcome> {
    const { act, context, params } = this.#prepare(request)
    const { actor, name, reason } = request
    const entry = await this.#audit.begin(
      actor,
      name,
      auditedParams(act, params),
      await act.preview(context, params),
      reason,
    )
    let outcome: Outcome
    try {
      outcome = await act.run(context, params)
    } catch (error) {
      const code = isInstance(error, HoldfastError) ? error.code : 'INTERNAL'
      await this.#audit.end(entry, null, `${code}: ${messageOf(error)}`).catch(() => {})
      throw error
    }
    // The act has already run, so a failure to write the audit entry is ignored.
    await this.#audit.end(entry, outcome.text, null).catch(() => {})
    return outcome
  }

  #prepare({ name, params, actor, reason }: ActRequest) {
    const act = acts[name] as AnyAct
    return { act, context: { ...this.#context, actor, reason, budgetMs }, params: readParams(name, params, act) }
  }
}

/** Replaces inputs by their size, because the audit log is kept longer than jobs, and `redact` does not apply to it. */
function auditedParams({ needs, params }: AnyAct, given: object): object {
  const kinds: ParamKinds = { ...needs, ...params }
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [
      name,
      kinds[name] === 'json' && typeof value === 'string' ? `${Buffer.byteLength(value)} bytes` : value,
    ]),
  )
}
