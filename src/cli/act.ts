import { type ActContext, type ActName, type Acts, type AnyAct, acts, Operator, type Outcome } from '../acts/index.js'
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

/** Previews an act, asks for confirmation if the act requires it, runs the act, and prints the outcome. */
export async function runAct<Name extends ActName>(
  settings: Settings,
  name: Name,
  params: ParamsOf<Name>,
): Promise<void> {
  const { done, text, result } = await withActs(settings, (context) => previewAndRun(settings, context, name, params))
  // The acts' types guarantee that the result fits the command's schema.
  if (result) printDocument(settings, result as never)
  printMessage(text)
  if (!done) throw new Exit(exitCode.conditionNotMet)
}

/** An act on a single object, which is given as the command's argument. */
export type NamedAct =
  | Extract<ActName, `${string}-queue` | `${string}-schedule` | `${string}-limit`>
  | 'release-name'
  | 'expire-lease'
  | 'break-lock'
  | 'forget-delivery'

export const actOn =
  (name: NamedAct) =>
  (settings: Settings, word: string): Promise<void> => {
    if (name === 'release-name' || name === 'expire-lease' || name === 'break-lock') {
      const { key, label, namespace } = readTarget(settings, word)
      return runAct(settings, name, { key, name: label, namespace: namespace ?? undefined })
    }
    const { namespace } = settings
    if (name === 'forget-delivery') return runAct(settings, name, { namespace, key: checkName(word, 'key') })
    return runAct(settings, name, { namespace, name: checkName(word, name.split('-')[1]) })
  }

/** Runs an act on several jobs, one after another. Throws for an invalid ID before the first job is changed. */
export const actOnJobs = (name: 'retry-job' | 'cancel-job') => async (settings: Settings, words: readonly string[]) => {
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
  const act = acts[name] as AnyAct
  if (act.consent) {
    const { text, applies, facts = [] } = await act.preview(context, params as never)
    if (applies) {
      printMessage([text, ...facts.map(([label, value]) => `  ${label}: ${value}`)].join('\n'))
      await requireConfirmation(settings, act.consent.doing, act.consent.question)
    }
  }
  return act.run(context, params as never)
}

export function jobId(word: string): number {
  const id = Number(word)
  if (/^\d+$/.test(word) && Number.isSafeInteger(id) && id > 0) return id
  throw new UsageError(`Expected the ID of a job to be a whole number, got ${JSON.stringify(word)}`)
}
