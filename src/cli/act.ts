import {
  type ActContext,
  type ActName,
  type Acts,
  acts,
  type Consent,
  type Consequence,
  Operator,
  type Outcome,
} from '../acts/index.js'
import { checkName, UsageError } from '../base/index.js'
import { Observer } from '../observe/index.js'
import { requireConfirmation } from './confirm.js'
import { withDatabase, withMembers } from './connect.js'
import { Exit, exitCode, printMessage } from './failure.js'
import { readTarget } from './labels.js'
import { printDocument } from './output.js'
import { Progress } from './progress.js'
import type { Settings } from './settings.js'

type ParamsOf<Name extends ActName> = Parameters<Acts[Name]['run']>[1]
type AnyAct<Params> = {
  readonly consent?: Consent
  preview(context: ActContext, params: Params): Promise<Consequence>
  run(context: ActContext, params: Params): Promise<Outcome>
}

/** Previews an act, asks for confirmation if the act requires it, runs the act, and prints the outcome. */
export async function runAct<Name extends ActName>(
  settings: Settings,
  name: Name,
  params: ParamsOf<Name>,
): Promise<void> {
  const { done, text, result } = await withActs(settings, (context) => previewAndRun(settings, context, name, params))
  // The types of the acts guarantee that the result fits the schema of the command.
  if (result) printDocument(settings, result as never)
  printMessage(text)
  if (!done) throw new Exit(exitCode.conditionNotMet)
}

/** Runs an act on a name that is held as a lock or as a lease. */
export function actOnKey(
  settings: Settings,
  name: 'release-name' | 'expire-lease' | 'break-lock',
  word: string,
): Promise<void> {
  const { key, label } = readTarget(settings, word)
  return runAct(settings, name, { key, name: label })
}

/** Runs an act on a queue, a schedule or a limit in the namespace. */
export function actOnName(
  settings: Settings,
  name: Extract<ActName, `${string}-queue` | `${string}-schedule` | `${string}-limit`>,
  word: string,
): Promise<void> {
  const [, what] = name.split('-')
  return runAct(settings, name, { namespace: namespaceOf(settings), name: checkName(word, what) })
}

export function forgetDelivery(settings: Settings, word: string): Promise<void> {
  return runAct(settings, 'forget-delivery', { namespace: namespaceOf(settings), key: checkName(word, 'key') })
}

/** Runs an act on several jobs, one after another. Throws for an invalid ID before the first job is changed. */
export async function actOnJobs(
  settings: Settings,
  name: 'retry-job' | 'cancel-job',
  words: readonly string[],
): Promise<void> {
  const ids = [...new Set(words.map(jobId))]
  const done: number[] = []
  await withActs(settings, async (context) => {
    for (const id of ids) {
      const outcome = await previewAndRun(settings, context, name, { id })
      if (outcome.done) done.push(id)
      printMessage(outcome.text)
    }
  })
  if (name === 'retry-job') printDocument<'job-retry'>(settings, { retried: done })
  else printDocument<'job-cancel'>(settings, { cancelled: done })
  if (done.length < ids.length) throw new Exit(exitCode.conditionNotMet)
}

/** Runs `work` with the context that acts need on the command line. */
export async function withActs<T>(settings: Settings, work: (context: ActContext) => Promise<T>): Promise<T> {
  using progress = new Progress(settings)
  return await withDatabase(settings, (database, schema, pool) =>
    withMembers(pool, schema, (asMember) =>
      work({
        observer: new Observer(database, schema),
        operator: new Operator(database, schema),
        asMember,
        errorLine: ({ name, message }) => `${name}: ${message}`,
        reason: settings.text('reason'),
        onProgress: (text) => progress.show(text),
      }),
    ),
  )
}

export async function previewAndRun<Name extends ActName>(
  settings: Settings,
  context: ActContext,
  name: Name,
  params: ParamsOf<Name>,
): Promise<Outcome> {
  const act = acts[name] as unknown as AnyAct<ParamsOf<Name>>
  if (act.consent) {
    const { text, applies, facts = [] } = await act.preview(context, params)
    if (applies) {
      printMessage([text, ...facts.map(([label, value]) => `  ${label}: ${value}`)].join('\n'))
      await requireConfirmation(settings, act.consent.doing, act.consent.question)
    }
  }
  return act.run(context, params)
}

export function jobId(word: string): number {
  const id = Number(word)
  if (/^\d+$/.test(word) && Number.isSafeInteger(id) && id > 0) return id
  throw new UsageError(`Expected the ID of a job to be a whole number, got ${JSON.stringify(word)}`)
}

function namespaceOf(settings: Settings): string {
  return settings.name('namespace') ?? 'default'
}
