// A process that runs a delivery and stops in its middle, where it is told to: `before` or `after` its effect, or not at all.
import { Holdfast, type HoldfastError } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Given {
  url: string
  expiryMs: number
  key: string
  stage?: 'before' | 'after'
  anchor?: 'required' | 'none'
}

const { url, expiryMs, key, stage, anchor }: Given = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor }))
const reached = () => {
  process.send?.('reached')
  // Until it is killed, or thawed and told to go on.
  return new Promise((resolve) => process.once('message', resolve))
}
try {
  const answer = await holdfast.once.run(key, async ({ tx }) => {
    if (stage === 'before') await reached()
    await tx.query('update account set balance = balance + 1 where name = $1', [key])
    if (stage === 'after') await reached()
    return `by ${process.pid}`
  })
  process.send?.({ answer })
} catch (error) {
  process.send?.({ code: (error as HoldfastError).code })
}
