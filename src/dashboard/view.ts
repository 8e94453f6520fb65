import type { Audit, NoParams, ParamKinds, ParsedParams } from '../acts/index.js'
import type { Holdfast } from '../index.js'
import type { Observer } from '../observe/index.js'
import type { Executor, Reader } from '../postgres/index.js'
import type { Redact } from './redact.js'

/** Maximum number of rows in a list. */
export const maxRows = 200

/** Type of the parameter that contains the number of rows to skip in a list. */
export const offset = { number: [0, 1_000_000] } as const

/** Dependencies of the views. */
export interface ViewContext {
  readonly executor: Executor & Reader
  readonly observer: Observer
  readonly schema: string
  /** Runs `work` with a fleet member that holds no locks, opens on first use and closes after an idle period. */
  asMember<T>(namespace: string, work: (holdfast: Holdfast) => Promise<T>): Promise<T>
  readonly audit: Audit
  /** Redacts every payload: inputs, results, errors and log lines. */
  readonly redact: Redact
  /** Template of the URL of a trace. Undefined if traces have no links. */
  readonly traceUrl: string | undefined
}

interface ViewDefinition<Needs extends ParamKinds, Params extends ParamKinds, Data> {
  readonly intervalMs: number
  read(context: ViewContext, params: ParsedParams<Needs, Params>): Promise<Data>
}

/**
 * One of the dashboard's queries. It runs every `intervalMs` while at least one page subscribes to it. The pages
 * receive the data whenever the data has changed.
 *
 * - Each list contains at most 200 rows, and long texts are truncated.
 * - Dates come from the database clock. Ages and remaining times (`…Ms`) are relative to the snapshot's time. If
 *   such a number has changed only by the elapsed time, the data counts as unchanged.
 */
export interface View<Needs extends ParamKinds, Params extends ParamKinds, Data>
  extends ViewDefinition<Needs, Params, Data> {
  readonly needs: Needs
  readonly params: Params
}

export type AnyView = View<ParamKinds, ParamKinds, unknown>

/**
 * Defines a view. `needs` lists the required parameters, and `params` lists the optional parameters.
 *
 * @example
 * const lock = view({
 *   intervalMs: 1_000,
 *   needs: { key: 'key' },
 *   read: ({ observer }, { key }) => observer.locks({ key }),
 * })
 */
export function view<Data, const Needs extends ParamKinds = NoParams, const Params extends ParamKinds = NoParams>(
  definition: ViewDefinition<Needs, Params, Data> & { readonly needs?: Needs; readonly params?: Params },
): View<Needs, Params, Data> {
  const { needs = {} as Needs, params = {} as Params } = definition
  return { ...definition, needs, params }
}
