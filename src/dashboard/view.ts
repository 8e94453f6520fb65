import type { NoParams, ParamKinds, ParsedParams } from '../acts/index.js'
import type { Holdfast } from '../index.js'
import type { Observer } from '../observe/index.js'
import type { Executor, Reader } from '../postgres/index.js'
import type { Audit } from './audit.js'
import type { Redact } from './redact.js'

/** What a view asks. */
export interface ViewContext {
  readonly executor: Executor & Reader
  readonly observer: Observer
  /** Where Holdfast keeps its tables. */
  readonly schema: string
  /**
   * Works with a member of the fleet that holds nothing, for what the rooms know and the observer does not. It is opened when
   * it is first needed, and closed when it has not been for a while.
   */
  asMember<T>(namespace: string, work: (holdfast: Holdfast) => Promise<T>): Promise<T>
  readonly audit: Audit
  /** Every payload goes through it: inputs, results, answers, what errors say. */
  readonly redact: Redact
}

/**
 * One question that the dashboard can ask, under a name. Whoever watches it is told the answer when it has changed.
 *
 * - It asks little: whoever watches costs so much every `intervalMs`, and all who watch the same cost it once.
 * - What it says is bounded: at most 200 rows of a kind. Long texts are cut on the way.
 * - Moments are those of the database. Ages and times left (`…Ms`) may stand beside them: they count from the moment of the
 *   answer, which is told with it, and are no change as long as they only go with the clock.
 */
export interface View<Needs extends ParamKinds, Params extends ParamKinds, Data> {
  readonly intervalMs: number
  readonly needs: Needs
  readonly params: Params
  read(context: ViewContext, params: ParsedParams<Needs, Params>): Promise<Data>
}

/** Any view, whatever it needs. */
export type AnyView = View<ParamKinds, ParamKinds, unknown>

/**
 * Defines a view. `needs` are the parameters that must be given, `params` those that may be.
 *
 * @example
 * const lock = view({
 *   intervalMs: 1_000,
 *   needs: { key: 'key' },
 *   read: ({ observer }, { key }) => observer.locks({ key }),
 * })
 */
export function view<
  Data,
  const Needs extends ParamKinds = NoParams,
  const Params extends ParamKinds = NoParams,
>(definition: {
  readonly intervalMs: number
  readonly needs?: Needs
  readonly params?: Params
  read(context: ViewContext, params: ParsedParams<Needs, Params>): Promise<Data>
}): View<Needs, Params, Data> {
  const { needs = {} as Needs, params = {} as Params } = definition
  return { ...definition, needs, params }
}
