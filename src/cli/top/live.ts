import { HoldfastError } from '../../base/index.js'
import type { Overview } from '../../observe/index.js'
import { statusOfSignal } from '../child.js'
import { Exit } from '../failure.js'
import { onSignals, stopSignals } from '../signals.js'
import { layOut } from './layout.js'
import { Screen } from './screen.js'
import { firstView, type Key, press } from './view.js'

/** Maximum pause between attempts while the database does not respond. */
const retryMs = 2_000

interface LiveOptions {
  readonly read: () => Promise<Overview>
  readonly address: string
  readonly schema: string
  readonly intervalMs: number
  readonly hasColours: boolean
}

/** Shows the overview on the terminal until the user quits. Rejects with `Exit` after a signal. */
export async function runLive({ read, address, schema, intervalMs, hasColours }: LiveOptions): Promise<void> {
  // The first query runs before the screen opens, so that its error is printed like the error of any other command.
  let view = firstView(await read(), address, schema, intervalMs)
  let goneSince: number | undefined
  let timer: NodeJS.Timeout | undefined
  let isReading = false
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
      if (wish === 'refresh') refreshIn(0)
    },
    changed: draw,
    closed: () => fail(new Exit(statusOfSignal('SIGHUP'))),
  })
  onSignals(stopSignals, (signal) => fail(new Exit(statusOfSignal(signal))))

  function draw(): void {
    screen.draw(layOut(view, screen.size))
  }

  function refreshIn(ms: number): void {
    clearTimeout(timer)
    if (!view.isPaused) timer = setTimeout(() => refresh().catch(fail), ms)
  }

  async function refresh(): Promise<void> {
    // Runs one query at a time, even if the user presses r repeatedly.
    if (isReading) return
    isReading = true
    try {
      const overview = await read()
      // The user paused the refresh with the key p during the read.
      if (view.isPaused) return
      goneSince = undefined
      view = { ...view, overview, outage: undefined }
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error
      goneSince ??= performance.now()
      view = { ...view, outage: { reason: error.message, forMs: performance.now() - goneSince } }
    } finally {
      isReading = false
    }
    draw()
    refreshIn(view.outage ? Math.min(retryMs, view.intervalMs) : view.intervalMs)
  }

  try {
    screen.open()
    draw()
    refreshIn(view.intervalMs)
    await ended
  } finally {
    clearTimeout(timer)
    screen.close()
  }
}
