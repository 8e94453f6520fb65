import {
  type AreaSummary,
  type Diagnosis,
  type ExamineOptions,
  examine,
  type Finding,
  fix,
  formatCount,
  needsAction,
} from '../../doctor/index.js'
import { checkUrl } from '../../postgres/index.js'
import { requireConfirmation } from '../confirm.js'
import { connect } from '../connect.js'
import type { FixAttempt } from '../documents.js'
import { Exit, exitCode, printMessage } from '../failure.js'
import { printJson } from '../output.js'
import { Progress } from '../progress.js'
import type { Settings } from '../settings.js'
import { printFindings, shortFix, titleOf } from './show.js'

export async function doctor(settings: Settings): Promise<void> {
  const { database, schema } = connect(settings)
  const directUrl = settings.text('directUrl')
  const options: ExamineOptions = {
    database,
    direct: directUrl === undefined ? undefined : { connectionString: checkUrl(directUrl, '--direct-url') },
    schema,
    expiryMs: settings.durationMs('expiry', 2_000),
    toleranceMs: settings.durationMs('patience'),
  }
  try {
    let diagnosis = await examine(options)
    const fixed = settings.flag('fix') ? await applyFixes(settings, options, diagnosis) : []
    if (fixed.length > 0) diagnosis = await examine(options)
    if (settings.flag('json')) printJson<'doctor'>({ ...diagnosis, fixed })
    else printFindings(settings, diagnosis)
    printMessage(summaryText(diagnosis))
    const fixable = diagnosis.findings.filter((finding) => finding.fix.fixable).length
    if (fixable > 0 && !settings.flag('fix'))
      printMessage(`Run \`holdfast doctor --fix\` to fix ${fixable} of these findings.`)
    if (diagnosis.findings.some(needsAction)) throw new Exit(exitCode.conditionNotMet)
  } finally {
    await database.close()
  }
}

/** Returns a line about the configuration and, if Holdfast is installed, a line about the fleet. */
function summaryText({ areas, alive, lost }: Diagnosis): string {
  const { configuration, fleet } = areas
  const instancesText = `${alive === 0 ? 'No instance is' : `${formatCount(alive, 'instance')} ${alive === 1 ? 'is' : 'are'}`} running`
  const lostText = lost === 0 ? '' : `, ${lost} ${lost === 1 ? 'is' : 'are'} lost`
  return [
    `Configuration: ${areaText(configuration)}.`,
    ...(fleet.checks === 0 ? [] : [`Fleet: ${areaText(fleet)}. ${instancesText}${lostText}.`]),
  ].join('\n')
}

function areaText({ checks, wrong, risky, unchecked, note }: AreaSummary): string {
  const parts = [
    wrong > 0 ? `${wrong} wrong` : '',
    risky > 0 ? `${risky} risky` : '',
    unchecked > 0 ? `${unchecked} could not be checked` : '',
    note > 0 ? formatCount(note, 'note') : '',
  ].filter((part) => part !== '')
  return `${formatCount(checks, 'check')}, ${parts.length === 0 ? 'all well' : parts.join(', ')}`
}

async function applyFixes(settings: Settings, options: ExamineOptions, { findings }: Diagnosis): Promise<FixAttempt[]> {
  const fixable = findings.filter((finding) => finding.fix.fixable)
  if (fixable.length === 0) {
    printMessage('None of the findings can be fixed with --fix.')
    return []
  }
  printMessage('This will fix:')
  for (const finding of fixable) printMessage(`  ${titleOf(finding)}\n${shortFix(finding.fix, '    ').join('\n')}`)
  await requireConfirmation(settings, 'fixing', 'Apply these fixes?')
  const fixed: FixAttempt[] = []
  for (const finding of fixable) {
    const failure = await tryFix(settings, options, finding)
    fixed.push({ id: finding.id, subject: finding.subject, failure })
    printMessage(failure === null ? `Done: ${titleOf(finding)}` : `Not done: ${titleOf(finding)}: ${failure}`)
  }
  return fixed
}

/** Applies a fix and shows its progress. Returns the reason why the fix failed, or null if the fix succeeded. */
async function tryFix(settings: Settings, options: ExamineOptions, finding: Finding): Promise<string | null> {
  using progress = new Progress(settings)
  return await fix(options, finding, (progressText) => progress.show(`${titleOf(finding)}: ${progressText}`)).then(
    () => null,
    (error: Error) => error.message,
  )
}
