// Command palette: opens pages, jobs, queues, schedules, instances and locks, and starts actions on them, by name.
import './palette.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { cut, shorten } from './format.js'
import { useView } from './live.js'
import { useMe } from './me.js'
import { Confirm, type ConfirmProps, namespaceIn } from './parts/confirm.js'
import { Dialog } from './parts/dialog.js'
import { go, hrefOf, hrefOfQueue, pages, useRoute } from './routes.js'
import type { ActName } from './wire.js'

interface Command {
  readonly id: string
  /** Kind of thing, such as `Queue`, or the verb of an action. */
  readonly kind: string
  readonly text: string
  readonly run: () => void
}

/** Words of a command that are not part of a name. */
const verbs = ['run', 'pause', 'resume', 'drain', 'retry', 'cancel', 'open', 'go', 'to']
const kinds = ['database', 'page', 'job', 'queue', 'schedule', 'instance', 'lock', 'name']
const maxPerKind = 6

export function Palette({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const [action, setAction] = useState<ComponentChildren>()
  const field = useRef<HTMLInputElement>(null)
  const list = useRef<HTMLDivElement>(null)
  useEffect(() => field.current?.focus(), [])
  const commands = useCommands(text, (props) => setAction(<Confirm {...props} onClose={onClose} />))
  const chosen = Math.min(at, commands.length - 1)
  useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' }), [chosen])
  if (action) return <>{action}</>
  const run = (command: Command | undefined) => {
    if (!command) return
    command.run()
    if (command.kind !== actionKind) onClose()
  }
  return (
    <Dialog title="Go to" onClose={onClose}>
      <input
        ref={field}
        class="field"
        role="combobox"
        aria-label="Page, job number, queue, schedule, instance, lock or action"
        aria-expanded={commands.length > 0}
        aria-controls="palette-list"
        aria-activedescendant={commands.length > 0 ? `palette-${chosen}` : undefined}
        aria-autocomplete="list"
        placeholder="mail, 4711, pause mail, drain web-3 …"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value)
          setAt(0)
        }}
        onKeyDown={(event) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
          if (step !== undefined) setAt(Math.max(0, Math.min(commands.length - 1, chosen + step)))
          else if (event.key === 'Enter') run(commands[chosen])
          else return
          event.preventDefault()
        }}
      />
      <div ref={list} id="palette-list" class="palette" role="listbox" aria-label="Matches">
        {commands.map((command, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys
          // biome-ignore lint/a11y/useFocusableInteractive: the field keeps the focus and names the chosen option
          <div
            key={command.id}
            id={`palette-${index}`}
            class="between"
            role="option"
            aria-selected={index === chosen}
            onClick={() => run(command)}
          >
            <bdi>{command.text}</bdi>
            <span class="muted small">{command.kind}</span>
          </div>
        ))}
      </div>
      {commands.length === 0 && <p class="muted">Nothing found.</p>}
    </Dialog>
  )
}

const actionKind = 'Action'

type Start = <Name extends ActName>(props: Omit<ConfirmProps<Name>, 'onClose'>) => void

/** Returns the commands that match the text. Each word of the text must occur in the command. */
function useCommands(text: string, start: Start): readonly Command[] {
  const me = useMe()
  const { page, params } = useRoute()
  const { namespace: only } = params
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const search = words.filter((word) => !verbs.includes(word) && !kinds.includes(word)).join(' ') || undefined
  const overview = useView('overview', { namespace: only })
  const schedules = useView('schedules', { namespace: only, search })
  const instances = useView('instances', { namespace: only, search })
  const names = useView('names', { namespace: only, search })
  // Two namespaces can contain the same name.
  const placeOf = (namespace: string | undefined) =>
    namespace === undefined || only || me.namespaces.length < 2 ? '' : ` in ${shorten(namespace, 30)}`
  const action = <Name extends ActName>(label: string, act: Name, params: ConfirmProps<Name>['params'], of: string) => {
    if (!me.rights.includes(act)) return []
    const text = `${label} ${shorten(of, 40)}${placeOf(namespaceIn(params))}`
    const run = () => start({ act, params, label, subject: of })
    return [{ id: `${act} ${JSON.stringify(params)}`, kind: actionKind, text, run }]
  }
  const open = (kind: string, name: string, href: string): Command => {
    const goTo = () => {
      location.hash = href
    }
    return { id: `${kind} ${href}`, kind, text: shorten(name, 60), run: goTo }
  }
  const fits = ({ kind, text }: Command) => {
    const whole = `${kind} ${text}`.toLowerCase()
    return words.every((word) => whole.includes(word))
  }
  const number = words.find((word) => /^\d{1,15}$/.test(word))
  const job =
    number === undefined
      ? []
      : [
          open('Job', `Job ${number}`, hrefOf('jobs', { id: number })),
          ...action('Retry', 'retry-job', { id: Number(number) }, `job ${number}`),
          ...action('Cancel', 'cancel-job', { id: Number(number) }, `job ${number}`),
        ]
  const groups: readonly (readonly Command[])[] = [
    job,
    pages
      .filter(({ id }) => id !== 'databases')
      .map(({ id, title }) => ({ id: `page ${id}`, kind: 'Page', text: title, run: () => go(id) })),
    (overview.data?.queues ?? []).flatMap(({ name, namespace, pausedMs }) =>
      name === null || namespace === null
        ? []
        : [
            open(
              'Queue',
              name + placeOf(namespace),
              hrefOfQueue(name, undefined, placeOf(namespace) ? namespace : undefined),
            ),
            ...(pausedMs === null
              ? action('Pause', 'pause-queue', { namespace, name }, `queue ${name}`)
              : action('Resume', 'resume-queue', { namespace, name }, `queue ${name}`)),
          ],
    ),
    (schedules.data?.rows ?? []).flatMap(({ name, namespace, pausedAt }) => [
      open('Schedule', name + placeOf(namespace), hrefOf('schedules', { schedule: name, of: namespace })),
      ...action('Run', 'run-schedule', { namespace, name }, `schedule ${name}`),
      ...(pausedAt === null
        ? action('Pause', 'pause-schedule', { namespace, name }, `schedule ${name}`)
        : action('Resume', 'resume-schedule', { namespace, name }, `schedule ${name}`)),
    ]),
    (instances.data?.rows ?? []).flatMap(({ id, name, alive, state }) => [
      open('Instance', name, hrefOf('instances', { instance: id })),
      ...(alive && state === 'open' ? action('Drain', 'drain-instance', { id }, `instance ${name}`) : []),
    ]),
    [...(names.data?.locks ?? []), ...(names.data?.leases ?? [])].map(({ key, label }) =>
      open('Name', label ?? `key ${key}`, hrefOf('locks', { key })),
    ),
  ]
  const databases = [
    ...(me.databases.length > 0 ? [open('Page', 'All databases', hrefOf('databases'))] : []),
    ...me.databases.map((name) => open('Database', name, hrefOf('now', { database: name, namespace: undefined }))),
  ]
  // On the page of all databases, a name would not show its database.
  if (page === 'databases') return databases.filter(fits)
  const found = [databases, ...groups].flatMap((group) => group.filter(fits).slice(0, maxPerKind))
  const query = cut(text.trim(), 60)
  return query === '' ? found : [...found, open('Search', `Jobs: ${query}`, hrefOf('jobs', { search: text.trim() }))]
}
