import './app.css'
import type { ComponentType } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, api } from './api.js'
import { forgetClock, now, resetClock } from './clock.js'
import { ConnectionState } from './connection-state.js'
import { shorten } from './format.js'
import { Help } from './help.js'
import { useShortcuts } from './keyboard.js'
import { checkStream } from './live.js'
import { MeContext } from './me.js'
import { Databases } from './pages/databases.js'
import { Deliveries } from './pages/deliveries.js'
import { Instances } from './pages/instances.js'
import { Jobs } from './pages/jobs.js'
import { Limits } from './pages/limits.js'
import { Locks } from './pages/locks.js'
import { Now } from './pages/now.js'
import { Schedules } from './pages/schedules.js'
import { Palette } from './palette.js'
import { Choice } from './parts/choice.js'
import { Facts } from './parts/facts.js'
import { Icon } from './parts/icons.js'
import { pressPanel } from './parts/panel.js'
import { Toasts } from './parts/toast.js'
import { go, hrefOf, type PageId, pages, setParams, switchDatabase, useRoute } from './routes.js'
import { focusAction, moveRow, moveTable } from './rows.js'
import { useTheme } from './theme.js'
import type { Me } from './wire.js'
import { localOffset, useZone, zoneLabel } from './zone.js'

const pageComponents: Record<PageId, ComponentType> = {
  databases: Databases,
  now: Now,
  locks: Locks,
  schedules: Schedules,
  jobs: Jobs,
  deliveries: Deliveries,
  limits: Limits,
  instances: Instances,
}

export function App() {
  const [me, setMe] = useState<Me>()
  const [error, setError] = useState<ApiError>()
  const [attempt, setAttempt] = useState(0)
  const { params } = useRoute()
  const { database } = params
  useEffect(() => {
    let isCurrent = true
    const refresh = () =>
      api.me(database).then(
        (current) => {
          if (!isCurrent) return
          if (current.now) resetClock(current.now)
          setMe(current)
          setError(undefined)
          if (database !== undefined || current.databaseName === null) return
          // A link without a page opens the page of all databases. Any other link opens the first database.
          const isFirst = location.hash.replace(/^#\/?/, '') === ''
          history.replaceState(
            null,
            '',
            location.pathname + location.search + (isFirst ? '#/databases' : location.hash),
          )
          setParams({ database: current.databaseName })
        },
        (failure: ApiError) => {
          if (!isCurrent) return
          setError(failure)
          // The page of another database must not stay open.
          if (failure.status === 403 || failure.status === 404) setMe(undefined)
          checkStream()
        },
      )
    void refresh()
    // Requests `me` again regularly, because namespaces and rights can change while the page is open.
    const timer = setInterval(() => !document.hidden && void refresh(), me ? 30_000 : 3_000)
    return () => {
      isCurrent = false
      clearInterval(timer)
    }
  }, [attempt, me === undefined, database])
  useEffect(() => forgetClock, [database])
  if (me) {
    return (
      <MeContext.Provider value={me}>
        <Shell me={me} isCurrent={(database ?? null) === me.databaseName} />
      </MeContext.Provider>
    )
  }
  return (
    <main class="first">
      <Brand />
      {error ? (
        <>
          <h1>{error.message}</h1>
          {error.hint && <p class="muted">{error.hint}</p>}
          <p>
            <button type="button" class="button main" onClick={() => setAttempt(attempt + 1)}>
              Try again
            </button>
          </p>
          <p class="muted small">The page also retries automatically.</p>
        </>
      ) : (
        <p class="muted" role="status">
          Loading …
        </p>
      )}
    </main>
  )
}

/** Frame around the page. `isCurrent` is false until `me` describes the chosen database. */
function Shell({ me, isCurrent }: { readonly me: Me; readonly isCurrent: boolean }) {
  const { page, params } = useRoute()
  const allPages = pages.filter(({ id }) => id !== 'databases' || me.databases.length > 0)
  // On the page of all databases, a link to another page would not show to which database it leads.
  const shownPages = page === 'databases' ? allPages.filter(({ id }) => id === page) : allPages
  const [isHelp, setHelp] = useState(false)
  const [isPalette, setPalette] = useState(false)
  const [theme, nextTheme] = useTheme()
  const [zone, nextZone] = useZone()
  const main = useRef<HTMLElement>(null)
  const first = useRef(true)
  const openPalette = () => setPalette(true)
  useShortcuts([
    ...allPages.map(({ id, title, letter }) => ({
      ...{ key: `g ${letter}`, text: title, group: 'Pages' as const },
      run: () => go(id),
    })),
    { key: 'Mod+k', text: 'Go to a page, job, queue, schedule or instance', group: 'Everywhere', run: openPalette },
    { key: '?', text: 'Keyboard shortcuts', group: 'Everywhere', run: () => setHelp(true) },
    { key: 'Esc', text: 'Close the open details', group: 'Everywhere' },
    {
      key: 'j',
      text: 'Next row; from anywhere, the first row of the table',
      group: 'In a table',
      run: () => moveRow(1),
    },
    { key: 'k', text: 'Previous row', group: 'In a table', run: () => moveRow(-1) },
    { key: ']', text: 'Next table', group: 'In a table', run: () => moveTable(1) },
    { key: '[', text: 'Previous table', group: 'In a table', run: () => moveTable(-1) },
    { key: 'a', text: 'Next action of the row or of the details', group: 'In a table', run: focusAction },
    { key: 'q', text: "Show the panel's SQL statements", group: 'In a panel', run: () => pressPanel('sql') },
    { key: 't', text: 'Switch between the graphic and the table', group: 'In a panel', run: () => pressPanel('table') },
  ])
  const title = pages.find(({ id }) => id === page)!.title
  const where = page === 'databases' ? undefined : params.database
  useEffect(() => {
    document.title = [title, where, 'Holdfast'].filter((word) => word !== undefined).join(' · ')
    // When the document has just been loaded, focus stays at its start.
    if (!first.current) main.current?.focus({ preventScroll: true })
    first.current = false
    scrollTo(0, 0)
  }, [page, where])
  const Content = pageComponents[page]
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <div class="side">
        <header class="top">
          <Brand />
          <div class="choices">
            {me.databases.length > 0 && (
              <DatabaseChooser me={me} chosen={page === 'databases' ? '' : params.database} />
            )}
            {page !== 'databases' && <NamespaceChooser me={me} chosen={params.namespace ?? ''} />}
          </div>
          <div class="top-state between">
            <ConnectionState />
            <button
              type="button"
              class="button bare"
              title={
                zone === 'utc'
                  ? `Times are in UTC. Show local time (${localOffset(now())}).`
                  : 'Times are local. Show UTC.'
              }
              onClick={nextZone}
            >
              {zoneLabel(now())}
            </button>
          </div>
          <div class="top-tools row">
            <button
              type="button"
              class="button bare"
              title="Go to a page, job, queue, schedule or instance (Ctrl K)"
              aria-label="Go to"
              onClick={openPalette}
            >
              <Icon name="search" />
            </button>
            <button
              type="button"
              class="button bare"
              title={`Theme: ${theme}`}
              aria-label={`Theme: ${theme}`}
              onClick={nextTheme}
            >
              <Icon name={theme} />
            </button>
            <button
              type="button"
              class="button bare"
              title="Keyboard shortcuts (?)"
              aria-label="Keyboard shortcuts"
              onClick={() => setHelp(true)}
            >
              <Icon name="help" />
            </button>
          </div>
        </header>
        <nav class="pages" aria-label="Pages">
          {shownPages.map(({ id, title, short, letter }) => (
            <a
              key={id}
              class="hovers"
              href={hrefOf(id)}
              aria-current={id === page ? 'page' : undefined}
              title={`${title} (g ${letter})`}
            >
              <Icon name={id} />
              <span class="page-title">{title}</span>
              <span class="page-short">{short}</span>
              <span class="key" aria-hidden="true">
                g {letter}
              </span>
            </a>
          ))}
        </nav>
        {isCurrent && page !== 'databases' && <Place me={me} />}
      </div>
      <main id="content" ref={main} tabIndex={-1} aria-label={title}>
        {isCurrent ? (
          <Content key={`${params.database ?? ''} ${page} ${params.namespace ?? ''} ${zone}`} />
        ) : (
          <p class="muted" role="status">
            Loading …
          </p>
        )}
      </main>
      <Toasts />
      {isPalette && isCurrent && <Palette key={params.database} onClose={() => setPalette(false)} />}
      {isHelp && <Help onClose={() => setHelp(false)} />}
    </div>
  )
}

function Brand() {
  return (
    <div class="brand">
      <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
        <g fill="none" stroke="currentColor" stroke-width="2.8" stroke-linecap="round" stroke-linejoin="round">
          <circle cx="16" cy="6.500" r="3.500" />
          <path d="M16 10v18M10 15h12M5 19c.500 6 5 9 11 9s10.500-3 11-9" />
        </g>
      </svg>
      <span>Holdfast</span>
    </div>
  )
}

function DatabaseChooser({ me, chosen = '' }: { readonly me: Me; readonly chosen: string | undefined }) {
  return (
    <Choice
      label="Database"
      value={chosen}
      options={[['', 'All databases'], ...me.databases.map((name) => [name, name] as const)]}
      onChange={(name) => (name === '' ? go('databases', { namespace: undefined }) : switchDatabase(name))}
    />
  )
}

function NamespaceChooser({ me, chosen }: { readonly me: Me; readonly chosen: string }) {
  // Adds the namespace in the URL to the list, because it may have no instances.
  const names = chosen && !me.namespaces.includes(chosen) ? [chosen, ...me.namespaces] : me.namespaces
  return (
    <Choice
      label="Namespace"
      value={chosen}
      options={[['', 'All namespaces'], ...names.map((name) => [name, shorten(name, 60)] as const)]}
      // A page of the list belongs to the namespace in which it was opened.
      onChange={(namespace) => setParams({ namespace, after: undefined }, 'push')}
    />
  )
}

/** Shows the connected database and the current visitor. */
function Place({ me }: { readonly me: Me }) {
  return (
    <footer class="place small">
      <Facts
        facts={[
          me.databaseName !== null && ['Name', <bdi key="name">{me.databaseName}</bdi>],
          ['Database', <bdi key="database">{me.database}</bdi>],
          ['Schema', <bdi key="schema">{me.schema}</bdi>],
          ['PostgreSQL', me.server?.split(' ')[0] ?? '–'],
          ['Holdfast', me.version],
          ['You', <bdi key="visitor">{me.visitor}</bdi>],
          me.rights.length > 0 && ['Rights', `${me.rights.length} actions`],
        ]}
      />
    </footer>
  )
}
