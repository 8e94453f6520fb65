import type { Holdfast } from '../index.js'
import type { Observer } from '../observe/index.js'
import type { Operator } from './operator.js'
import type { NoParams, ParamKinds, ParsedParams } from './params.js'

/** What an act works with. The dashboard and the command line each make their own. */
export interface ActContext {
  readonly observer: Observer
  readonly operator: Operator
  /** Runs `work` with a member of the fleet that holds nothing. */
  asMember<T>(namespace: string, work: (holdfast: Holdfast) => Promise<T>): Promise<T>
  /** The error of a job of this kind as one line, without what must not be shown. */
  errorLine(error: { readonly name: string; readonly message: string }, kind: string): string
  /** The visitor of the dashboard; undefined on the command line, where nobody logs in. */
  readonly actor?: string | undefined
  /** Why, in the words of the operator. */
  readonly reason?: string | undefined
  /** An act of many steps stops after this time and reports what it has done. Default: it finishes. */
  readonly budgetMs?: number | undefined
  /** Receives the progress of an act of many steps. */
  onProgress?(text: string): void
}

/** What exactly will happen, from what the database knows now. */
export interface Consequence {
  /** The object of the act, in two or three words: `lock etl`. */
  readonly subject: string
  /** Whole sentences: "Ends session 4711. Everything that the session holds is lost immediately." */
  readonly text: string
  /** False when there is nothing to do. */
  readonly applies: boolean
  /** Whether work can be lost or done twice. */
  readonly dangerous: boolean
  readonly facts?: readonly (readonly [label: string, value: string])[]
}

/** The result of an act. */
export interface Outcome {
  /** False when there was nothing to do. */
  readonly done: boolean
  readonly text: string
  /** The same for programs: what `--json` prints. Undefined when the object does not exist. */
  readonly result?: object
}

/** Asked on a terminal before the act, unless `--yes` was given. */
export interface Consent {
  /** As in "breaking a lock must be confirmed". */
  readonly doing: string
  readonly question: string
}

/**
 * Something that an operator can do, under a name that is also the name of the right to do it. First `preview` reports what would
 * happen, then `run` does it. The database changes in between, so `run` itself must check that it does what it reports.
 */
export interface Act<Needs extends ParamKinds, Params extends ParamKinds> {
  readonly needs: Needs
  readonly params: Params
  readonly consent?: Consent
  preview(context: ActContext, params: ParsedParams<Needs, Params>): Promise<Consequence>
  run(context: ActContext, params: ParsedParams<Needs, Params>): Promise<Outcome>
}

/** Any act, whatever its parameters. */
export type AnyAct = Act<ParamKinds, ParamKinds>

/**
 * Defines an act. `needs` are the required parameters, `params` the optional ones.
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
  readonly consent?: Consent
  preview(context: ActContext, params: ParsedParams<Needs, Params>): Promise<Consequence>
  run(context: ActContext, params: ParsedParams<Needs, Params>): Promise<Outcome>
}): Act<Needs, Params> {
  const { needs = {} as Needs, params = {} as Params } = definition
  return { ...definition, needs, params }
}

/** The consequence of an act that has nothing to do. */
export function inapplicable(subject: string, text: string): Consequence {
  return { subject, text, applies: false, dangerous: false }
}

/** Joins those of the sentences that apply. */
export function joinSentences(...parts: readonly (string | false | null | undefined)[]): string {
  return parts.filter(Boolean).join(' ')
}

/** `1 job`, `2 jobs`. */
export function formatCount(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`
}

/** The first names of a long list. */
export function formatList(names: readonly string[], max = 5): string {
  const first = names.slice(0, max).map((name) => name.slice(0, 100))
  return first.join(', ') + (names.length > max ? ` and ${names.length - max} more` : '')
}
