import type { Operator } from '../operate/index.js'
import type { Consequence } from './consequence.js'
import type { NoParams, ParamKinds, ParamsRead } from './params.js'
import type { Asking } from './view.js'

/** What an act is done with. */
export interface Doing extends Asking {
  readonly operator: Operator
  /** Who does it. */
  readonly visitor: string
  /** Why, as they say. */
  readonly because: string | undefined
}

/** What became of it. */
export interface Outcome {
  /** False when there was nothing to do any more. */
  readonly done: boolean
  readonly says: string
}

/**
 * Something that a visitor may do, under a name that is also the name of the right to do it. It is asked twice: first what
 * would happen, then to do it. In between the world goes on, so `run` must itself make sure that it does what it says.
 */
export interface Act<Needs extends ParamKinds, Params extends ParamKinds> {
  readonly needs: Needs
  readonly params: Params
  preview(doing: Doing, params: ParamsRead<Needs, Params>): Promise<Consequence>
  run(doing: Doing, params: ParamsRead<Needs, Params>): Promise<Outcome>
}

/** Any act, whatever it needs. */
export type AnyAct = Act<ParamKinds, ParamKinds>

/**
 * Defines an act. `needs` are the parameters that must be given, `params` those that may be.
 *
 * @example
 * const resetLimit = act({
 *   needs: { namespace: 'text', name: 'text' },
 *   preview: async ({ observer }, { namespace, name }) => …,
 *   run: async ({ operator }, { namespace, name }) => …,
 * })
 */
export function act<const Needs extends ParamKinds = NoParams, const Params extends ParamKinds = NoParams>(definition: {
  readonly needs?: Needs
  readonly params?: Params
  preview(doing: Doing, params: ParamsRead<Needs, Params>): Promise<Consequence>
  run(doing: Doing, params: ParamsRead<Needs, Params>): Promise<Outcome>
}): Act<Needs, Params> {
  const { needs = {} as Needs, params = {} as Params } = definition
  return { ...definition, needs, params }
}
