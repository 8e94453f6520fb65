import { HoldfastError } from '../../base/index.js'
import { statusOfSignal } from '../child.js'
import { Exit } from '../failure.js'
import { onSignals, stopSignals } from '../signals.js'
import { layOut } from './layout.js'
import { Screen } from './screen.js'
import { type OverviewSource, readFirst } from './sources.js'
import { firstView, type Key, press, type WatchedDatabase } from './view.js'

/** Maximum pause between attempts while the database does not respond. */
const retryMs = 2_000

interface LiveOptions {
  readonly sources: readonly OverviewSource[]
  readonly schema: string
  readonly intervalMs: number
  readonly hasColours: boolean
}

/** Shows the overviews on the terminal until the user quits. Rejects with `Exit` after a signal. */
export async function runLive({ sources, schema, intervalMs, hasColours }: LiveOptions): Promise<void> {
  // The first query runs before the screen opens, so that its error is printed in the same way as other commands'
  // errors.
  let view = firstView(await readFirst(sources), schema, intervalMs)
  // Each database has its own timer, so that a slow database does not delay the others.
  const polls = sources.map(() => ({
    timer: undefined as NodeJS.Timeout | undefined,
    isReading: false,
    goneSince: undefined as number | undefined,
  }))
  let leave!: () => void
  let fail!: (reason: unknown) => void
  const ended = new Promise<void>((resolve, reject) => {
    leave = resolve
    fail = reject
  })

  const screen = new Screen(process.stdin, process.stdout, hasColours, {
    key: (key: Key) => {
      const { view: next, wish } = press(view, key)
      view = next
      if (wish === 'quit') return leave()
      if (wish === 'suspend') screen.suspend()
      else if (wish === 'redraw') screen.clear()
      else draw()
      if (wish === 'refresh') refreshAllIn(0)
    },
    changed: draw,
    closed: () => fail(new Exit(statusOfSignal('SIGHUP'))),
  })
  onSignals(stopSignals, (signal) => fail(new Exit(statusOfSignal(signal))))

  function draw(): void {
    screen.draw(layOut(view, screen.size))
  }

  function isShown(at: number): boolean {
    const shows = view.shows === 'help' ? view.behindHelp : view.shows
    return shows === 'databases' || at === view.at
  }

  function refreshAllIn(ms: number): void {
    for (const at of sources.keys()) if (isShown(at)) refreshIn(at, ms)
  }

  function refreshIn(at: number, ms: number): void {
    const poll = polls[at]!
    clearTimeout(poll.timer)
    if (!view.isPaused) poll.timer = setTimeout(() => refresh(at).catch(fail), ms)
  }

  function update(at: number, change: Partial<WatchedDatabase>): void {
    view = { ...view, databases: view.databases.map((one, index) => (index === at ? { ...one, ...change } : one)) }
  }

  async function refresh(at: number): Promise<void> {
    const poll = polls[at]!
    // Runs one query at a time, even if the user presses r repeatedly. A database that is not shown runs no queries.
    if (poll.isReading || !isShown(at)) return
    poll.isReading = true
    try {
      const overview = await sources[at]!.read()
      // The user paused the refresh with the key p during the read.
      if (view.isPaused) return
      poll.goneSince = undefined
      update(at, { overview, outage: undefined })
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error
      poll.goneSince ??= performance.now()
      update(at, { outage: { reason: error.message, forMs: performance.now() - poll.goneSince } })
    } finally {
      poll.isReading = false
    }
    draw()
    refreshIn(at, view.databases[at]!.outage ? Math.min(retryMs, view.intervalMs) : view.intervalMs)
  }

  try {
    screen.open()
    draw()
    for (const [at, { overview }] of view.databases.entries()) refreshIn(at, overview ? view.intervalMs : 0)
    await ended
  } finally {
    for (const { timer } of polls) clearTimeout(timer)
    screen.close()
  }
}
