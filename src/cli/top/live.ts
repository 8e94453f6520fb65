import { HoldfastError } from '../../base/index.js'
import type { Overview } from '../../observe/index.js'
import { statusOfSignal } from '../child.js'
import { Exit } from '../failure.js'
import { onSignals, stopSignals } from '../signals.js'
import { layOut } from './layout.js'
import { Screen } from './screen.js'
import { firstView, type Key, press } from './view.js'

/** While there is no answer the screen says for how long, and asks again no later than this. */
const retryMs = 2_000

interface LiveOptions {
  readonly read: () => Promise<Overview>
  readonly address: string
  readonly schema: string
  readonly intervalMs: number
  readonly hasColours: boolean
}

/** The overview on the terminal, until somebody leaves it. Rejects with `Exit` when a signal ends it. */
export async function runLive({ read, address, schema, intervalMs, hasColours }: LiveOptions): Promise<void> {
  // Before the terminal is taken over: what is wrong from the start is said as any command says it.
  let view = firstView(await read(), address, schema, intervalMs)
  let goneSince: number | undefined
  let timer: NodeJS.Timeout | undefined
  let isReading = false
  const { promise: ended, resolve: leave, reject: fail } = withResolvers()

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
    // Also while it hurries, the database is asked one thing at a time.
    if (isReading) return
    isReading = true
    try {
      const overview = await read()
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

function withResolvers(): { promise: Promise<void>; resolve: () => void; reject: (reason: unknown) => void } {
  let resolve!: () => void
  let reject!: (reason: unknown) => void
  const promise = new Promise<void>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
