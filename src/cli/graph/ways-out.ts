import { type ContendedName, type Holding, type Participant, type WayOut, waysOutOf } from '../../observe/index.js'
import type { Settings } from '../settings.js'

/** The commands that make room for those who wait for a name, the mildest first; none where only time, or a worker, helps. */
export function waysOut(
  settings: Settings,
  name: ContendedName,
  holding: Holding | undefined,
  participant: Participant,
): string[] {
  return waysOutOf(name, holding, participant).map((way) => `holdfast ${commandOf(settings, name, way)}`)
}

function commandOf(settings: Settings, name: ContendedName, way: WayOut): string {
  const named = `${optionsOf(settings, name)}${wordOf(name)}`
  switch (way.does) {
    case 'ask':
      return `lock release ${named}`
    case 'break':
      return `lock break ${named}`
    case 'expire':
      return `lease expire ${named}`
    case 'reset':
      return `limit reset ${named}`
    case 'cancel':
      return `job cancel ${way.job}`
    case 'retry':
      return `job retry ${way.job}`
    case 'look':
      return `job show ${way.job}`
  }
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
