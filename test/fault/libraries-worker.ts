// A process that runs a job, a schedule and a key with the transactions of a library. It stops at a stage of each transaction.
import { defineJob, Holdfast } from 'holdfast'
import { patiently } from '../setup/patiently.ts'
import { libraries } from '../stacks/libraries.ts'

export interface Options {
  readonly url: string
  readonly expiryMs: number
  readonly library: string
  /** After the effect, after the end has been recorded in the transaction, or after the commit. */
  readonly stage: 'effect' | 'recorded' | 'committed'
}

export type Message = 'open' | 'reached' | 'ended'

const { url, expiryMs, library: name, stage }: Options = JSON.parse(process.argv[2]!)
const library = await libraries[name]!(url)
const send = (message: Message) => void process.send?.(message)
const continued = new Promise((resolve) => process.once('message', resolve))

/** Waits at the stage until the process is killed, or until it receives the message to continue. */
async function reach(at: Options['stage']): Promise<void> {
  if (stage !== at) return
  send('reached')
  await continued
}

const holdfast = await patiently(() =>
  Holdfast.open({
    url,
    expiry: expiryMs,
    log: false,
    transaction: (async (work: (tx: never) => Promise<void>) => {
      try {
        await library.transaction(async (tx) => {
          await work(tx as never)
          await reach('recorded')
        })
        await reach('committed')
      } finally {
        send('ended')
      }
    }) as never,
  }),
)
const handle = async (tx: unknown, what: string) => {
  await library.insert(await tx, `${what} by the worker`)
  await reach('effect')
  return 'by the worker'
}
holdfast.jobs.work([defineJob('job', { run: (_: null, { tx }) => handle(tx, 'job') })])
holdfast.schedules.add('schedule', { every: '1d' }, ({ tx }) => handle(tx, 'schedule'))
holdfast.once.run('once', ({ tx }) => handle(tx, 'once')).catch(() => {})
send('open')
