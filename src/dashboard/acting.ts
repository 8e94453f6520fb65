import { type ActContext, type ActName, type AnyAct, acts, Operator, type Outcome, readParams } from '../acts/index.js'
import { describe, flag, type Rule, readOptions, suggest, UsageError } from '../base/index.js'
import type { Ground } from './ground.js'
import type { Admitted } from './guard.js'
import { Refusal } from './refusal.js'
import { saidOf } from './said.js'
import { errorSaid } from './views/jobs.js'
import type { Acted, Previewed } from './wire.js'

const longestReason = 1_000
/** A visitor waits for the answer. */
const budgetMs = 15_000

const rules = {
  params: {
    expected: 'an object',
    read: (given) => (typeof given === 'object' && given !== null ? given : undefined),
  } as Rule<object>,
  preview: flag,
  reason: {
    expected: `a text of at most ${longestReason} characters`,
    read: (given) => (typeof given === 'string' && given.length <= longestReason ? given : undefined),
  } as Rule<string>,
}

/** Does what visitors may do, and keeps account of it. */
export class Acting {
  readonly #ground: Ground
  readonly #readOnly: boolean
  readonly #operator: Operator

  constructor(ground: Ground, readOnly: boolean) {
    const { executor, schema } = ground.asking
    this.#ground = ground
    this.#readOnly = readOnly
    this.#operator = new Operator(executor, schema)
  }

  /** What a visitor may do here. */
  rightsOf({ rights }: Admitted): readonly ActName[] {
    return this.#readOnly ? [] : rights
  }

  async act(name: string, asked: unknown, visitor: Admitted): Promise<Previewed | Acted> {
    if (!Object.hasOwn(acts, name)) {
      const meant = suggest(name, Object.keys(acts))
      throw new UsageError(`There is no act ${describe(name)}`, meant && `Did you mean ${meant}?`)
    }
    if (this.#readOnly) throw new Refusal(403, 'READ_ONLY', 'This dashboard only shows', 'It was made with readOnly.')
    if (!visitor.rights.includes(name as ActName)) {
      throw new Refusal(
        403,
        'FORBIDDEN',
        `${visitor.name} has no right to ${name}`,
        'The function auth gives the rights.',
      )
    }
    const act = acts[name as ActName] as AnyAct
    if (typeof asked !== 'object' || asked === null) throw new UsageError(`Expected an object, got ${describe(asked)}`)
    const { params: given = {}, preview = false, reason } = readOptions(name, asked, rules)
    const params = readParams(name, given, act)
    await this.#ground.ready()
    const context = this.#contextOf(visitor, reason)
    const consequence = await act.preview(context, params)
    if (preview) return { consequence }
    const entry = await this.#ground.asking.audit.begin(visitor.name, name, params, consequence, reason)
    const { done, text } = await this.#run(entry, () => act.run(context, params))
    return { outcome: { done, text } }
  }

  #contextOf({ name }: Admitted, reason: string | undefined): ActContext {
    const { observer, asMember, redact } = this.#ground.asking
    const errorLine: ActContext['errorLine'] = (error, of) => {
      const { name, message } = errorSaid(redact(error, { what: 'job error', of }))
      return [name && `${name}:`, message].filter(Boolean).join(' ')
    }
    return { observer, operator: this.#operator, asMember, errorLine, actor: name, reason, budgetMs }
  }

  async #run(entry: string, run: () => Promise<Outcome>): Promise<Outcome> {
    let outcome: Outcome
    try {
      outcome = await run()
    } catch (error) {
      const { code, message } = saidOf(error)
      await this.#ground.asking.audit.end(entry, null, `${code}: ${message}`).catch(() => {})
      throw error
    }
    // It has happened, whether or not that can still be written down.
    await this.#ground.asking.audit.end(entry, outcome.text, null).catch(() => {})
    return outcome
  }
}
