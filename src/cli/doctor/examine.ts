import {
  counted,
  type Diagnosis,
  examine,
  type Finding,
  isTrouble,
  mend,
  type PatientOptions,
} from '../../doctor/index.js'
import { checkUrl } from '../../postgres/index.js'
import { agree } from '../confirm.js'
import { connect } from '../connect.js'
import type { Mended } from '../documents.js'
import { Exit, exitCode, say } from '../failure.js'
import { printJson } from '../output.js'
import { Progress } from '../progress.js'
import type { Settings } from '../settings.js'
import { inShort, printFindings, titleOf } from './show.js'

export async function doctor(settings: Settings): Promise<void> {
  const { database, schema } = connect(settings)
  const directUrl = settings.text('directUrl')
  const options: PatientOptions = {
    database,
    direct: directUrl === undefined ? undefined : { connectionString: checkUrl(directUrl, '--direct-url') },
    schema,
    expiryMs: settings.durationMs('expiry', 2_000),
    patienceMs: settings.durationMs('patience'),
  }
  try {
    let diagnosis = await examine(options)
    const mended = settings.flag('fix') ? await fix(settings, options, diagnosis) : []
    if (mended.length > 0) diagnosis = await examine(options)
    if (settings.flag('json')) printJson<'doctor'>({ ...diagnosis, mended })
    else printFindings(settings, diagnosis)
    say(verdict(diagnosis))
    const fixable = diagnosis.findings.filter((finding) => finding.mend.fixable).length
    if (fixable > 0 && !settings.flag('fix')) say(`\`holdfast doctor --fix\` mends ${fixable} of them.`)
    if (diagnosis.findings.some(isTrouble)) throw new Exit(exitCode.conditionNotMet)
  } finally {
    await database.close()
  }
}

function verdict({ checks, findings }: Diagnosis): string {
  const looked = `${counted(checks, 'check')} made`
  const of = (wanted: Finding['severity']) => findings.filter(({ severity }) => severity === wanted).length
  const said = [
    of('wrong') > 0 ? `${of('wrong')} wrong` : '',
    of('risky') > 0 ? `${of('risky')} risky` : '',
    of('unchecked') > 0 ? `${of('unchecked')} could not be checked` : '',
    of('note') > 0 ? counted(of('note'), 'note') : '',
  ].filter((part) => part !== '')
  if (findings.some(isTrouble)) return `${looked}: ${said.join(', ')}.`
  return said.length === 0 ? `All is well: ${looked}.` : `Nothing is wrong: ${looked}, ${said.join(', ')}.`
}

async function fix(settings: Settings, options: PatientOptions, { findings }: Diagnosis): Promise<Mended[]> {
  const fixable = findings.filter((finding) => finding.mend.fixable)
  if (fixable.length === 0) {
    say('There is nothing that --fix could mend.')
    return []
  }
  say('This mends:')
  for (const finding of fixable) say(`  ${titleOf(finding)}\n${inShort(finding.mend, '    ').join('\n')}`)
  await agree(settings, 'mending', 'Do it?')
  const mended: Mended[] = []
  for (const finding of fixable) {
    const failure = await failureOf(settings, options, finding)
    mended.push({ id: finding.id, subject: finding.subject, failure })
    say(failure === null ? `Done: ${titleOf(finding)}` : `Not done: ${titleOf(finding)}: ${failure}`)
  }
  return mended
}

/** Mends it, and tells meanwhile how far that is; why it could not be done, or null. */
async function failureOf(settings: Settings, options: PatientOptions, finding: Finding): Promise<string | null> {
  using progress = new Progress(settings)
  return await mend(options, finding, (howFar) => progress.tell(`${titleOf(finding)}: ${howFar}`)).then(
    () => null,
    (error: Error) => error.message,
  )
}
