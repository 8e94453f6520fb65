import { expect, onTestFinished, test } from 'vitest'
import { Events } from '../../src/base/index.js'
import { Maintenance } from '../../src/jobs/maintenance.js'

test('a maintenance run that is due in ten years does not overflow the timer', async () => {
  const warnings: string[] = []
  const listener = ({ message }: Error) => void warnings.push(message)
  process.on('warning', listener)
  onTestFinished(() => void process.off('warning', listener))
  const maintenance = new Maintenance({} as never, {
    idleMs: 5_000,
    retainDays: 7,
    schema: 'holdfast',
    events: new Events(),
  })
  maintenance.runWithin(3_650 * 86_400_000)
  // Node emits warnings in the next turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve))
  await maintenance.close()
  expect(warnings).toEqual([])
})
