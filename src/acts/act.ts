import { shellQuote } from '../base/index.js'
import type { Holdfast } from '../index.js'
import type { Observer } from '../observe/index.js'
import type { Operator } from './operator.js'
import type { NoParams, ParamKinds, ParsedParams } from './params.js'

/** Dependencies that each act receives. The dashboard and the command line each create their own context. */
export interface ActContext {
  readonly observer: Observer
  readonly operator: Operator
  /** Runs `work` with an instance that is a member of the fleet but holds no locks. */
  asMember<T>(namespace: string, work: (holdfast: Holdfast) => Promise<T>): Promise<T>
  /** Formats a job's error as one line. The dashboard first redacts the error according to the job's kind. */
  errorLine(error: { readonly name: string; readonly message: string }, kind: string): string
  /** Name of the dashboard visitor who runs the act. Undefined if the act is run from the command line. */
  readonly actor?: string | undefined
  /** Reason that the operator gave for the act. */
  readonly reason?: string | undefined
  /** Time after which an act with many steps stops and reports the finished steps. Default: no limit. */
  readonly budgetMs?: number | undefined
  /** Receives the progress of an act with many steps. */
  onProgress?(text: string): void
}

/** Preview of an act, based on the database's current state. */
export interface Consequence {
  /** Object that the act changes, in two or three words, such as `lock etl`. */
  readonly subject: string
  /**
   * Effect of the act in complete sentences, such as "Ends session 4711. Everything held by this session is lost
   * immediately."
   */
  readonly text: string
  /** False if there is nothing to do. */
  readonly applies: boolean
  /** Whether the act can cause work to be lost or done twice. */
  readonly dangerous: boolean
  readonly facts?: readonly (readonly [label: string, value: string])[]
}

/** An act's result. */
export interface Outcome {
  /** False if there was nothing to do. */
  readonly done: boolean
  readonly text: string
  /** Outcome for programs, as printed with `--json`. Undefined if the object does not exist. */
  readonly result?: object
  /** Reason why the act may not have the effect that the operator expects. The command line always prints it. */
  readonly warning?: string | undefined
  /** ID of the job that the act created. The dashboard opens this job. */
  readonly job?: number
  /** Number of objects that an act on many objects has changed. */
  readonly count?: number
  /** Parameters that continue an act that reached its time limit. */
  readonly next?: Readonly<Record<string, string>>
}

/** Confirmation that the command line requires before the act, unless `--yes` was given. */
export interface Consent {
  /** Gerund for the sentence "… must be confirmed", such as `breaking a lock`. */
  readonly doing: string
  readonly question: string
}

interface ActDefinition<Needs extends ParamKinds, Params extends ParamKinds> {
  readonly consent?: Consent
  preview(context: ActContext, params: ParsedParams<Needs, Params>): Promise<Consequence>
  run(context: ActContext, params: ParsedParams<Needs, Params>): Promise<Outcome>
}

/**
 * An operation on the fleet. The act's name is also the name of the right to run it. `preview` reports what would
 * happen, and `run` executes the act. The database can change between the two, so `run` reads the current state again.
 */
export interface Act<Needs extends ParamKinds, Params extends ParamKinds> extends ActDefinition<Needs, Params> {
  readonly needs: Needs
  readonly params: Params
}

export type AnyAct = Act<ParamKinds, ParamKinds>

/**
 * Defines an act. `needs` contains the required parameters, and `params` the optional parameters.
 *
 * @example
 * const resetLimit = act({
 *   needs: { namespace: 'text', name: 'text' },
 *   preview: async ({ observer }, { namespace, name }) => …,
 *   run: async ({ operator }, { namespace, name }) => …,
 * })
 */
export function act<const Needs extends ParamKinds = NoParams, const Params extends ParamKinds = NoParams>(
  definition: ActDefinition<Needs, Params> & { readonly needs?: Needs; readonly params?: Params },
): Act<Needs, Params> {
  const { needs = {} as Needs, params = {} as Params } = definition
  return { ...definition, needs, params }
}

export function inapplicable(subject: string, text: string): Consequence {
  return { subject, text, applies: false, dangerous: false }
}

/** Joins the non-empty sentences with spaces. */
export function joinSentences(...parts: readonly (string | false | null | undefined)[]): string {
  return parts.filter(Boolean).join(' ')
}

/** Hints at the other namespaces that contain an object with the name. Returns undefined if there are none. */
export function otherNamespaceText(
  noun: string,
  objects: readonly { readonly namespace: string | null }[],
): string | undefined {
  const names = [...new Set(objects.flatMap(({ namespace }) => namespace ?? []))]
  if (names.length === 0) return undefined
  const quoted = formatList(names.map((name) => `"${name}"`))
  const where = names.length === 1 ? `the namespace ${quoted}` : `the namespaces ${quoted}`
  return `A ${noun} with this name exists in ${where}. Add, for example, --namespace ${shellQuote(names[0]!)}.`
}

/** Formats a count with its noun, such as `1 job` or `2 jobs`. */
export function formatCount(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`
}

/** Formats a list of names, such as `a, b and 3 more`. */
export function formatList(names: readonly string[], max = 5): string {
  const first = names.slice(0, max).map((name) => name.slice(0, 100))
  return first.join(', ') + (names.length > max ? ` and ${names.length - max} more` : '')
}
