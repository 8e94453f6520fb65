import type { ContendedName, Holding, Participant } from '../../observe/index.js'
import type { Settings } from '../settings.js'

/** The commands that make room for those who wait for a name, the mildest first; none where only time, or a worker, helps. */
export function waysOut(
  settings: Settings,
  name: ContendedName,
  holding: Holding | undefined,
  participant: Participant,
): string[] {
  const command = (verb: string) => `holdfast ${verb} ${optionsOf(settings, name)}${wordOf(name)}`
  // A leader that leads is no trouble.
  if (name.kind === 'election') return []
  switch (holding?.how) {
    case 'lock':
      // What is no instance of ours cannot be asked.
      return participant.kind === 'instance'
        ? [command('lock release'), command('lock break')]
        : [command('lock break')]
    case 'lease':
    case 'kept':
      return [command('lease expire')]
    case 'permit':
      return [command('limit reset')]
    case 'place':
    case 'job':
      return waysOfJob(holding.job!, participant)
    default:
      return []
  }
}

function waysOfJob(id: number, { job }: Participant): string[] {
  if (job === null) return [`holdfast job cancel ${id}`]
  // It does not run: what it waits for is told there. One that has ended otherwise than done is waited for until it was retried.
  return [job.state === 'ready' || job.state === 'waiting' ? `holdfast job show ${id}` : `holdfast job retry ${id}`]
}

function optionsOf(settings: Settings, name: ContendedName): string {
  const { namespace } = name
  const schema = settings.text('schema')
  return [
    ...(namespace && namespace !== 'default' ? [`--namespace ${shellWord(namespace)}`] : []),
    ...(schema && schema !== 'holdfast' ? [`--schema ${shellWord(schema)}`] : []),
    ...(isTypable(name) ? [] : ['--key']),
  ]
    .map((option) => `${option} `)
    .join('')
}

function wordOf(name: ContendedName): string {
  const word = isTypable(name) ? shellWord(name.label) : name.key
  return word.startsWith('-') ? `-- ${word}` : word
}

/** Pairs and numbered keys have a label, and no name that could be given; what moves a cursor is better not typed. */
function isTypable(name: ContendedName): name is ContendedName & { label: string } {
  const { kind, label, namespace } = name
  if (kind === 'limit') return true
  return label !== null && namespace !== '' && !label.includes('#') && !/\p{Cc}/u.test(label)
}

function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
