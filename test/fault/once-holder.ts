// A process that runs a key and stops `before` or `after` the effect, or not at all.
import { Holdfast, type HoldfastError } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  expiryMs: number
  key: string
  stage?: 'before' | 'after'
  anchor?: 'required' | 'none'
}

const { url, expiryMs, key, stage, anchor }: Options = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor, log: false }))
const reached = () => {
  process.send?.('reached')
  // Until the process is killed, or until it receives the message to continue.
  return new Promise((resolve) => process.once('message', resolve))
}
try {
  const result = await holdfast.once.run(key, async ({ tx }) => {
    if (stage === 'before') await reached()
    await tx.query('update account set balance = balance + 1 where name = $1', [key])
    if (stage === 'after') await reached()
    return `by ${process.pid}`
  })
  process.send?.({ result })
} catch (error) {
  process.send?.({ code: (error as HoldfastError).code })
}
