import { expect, onTestFinished, test } from 'vitest'
import { Maintenance } from '../../src/jobs/maintenance.js'

test('a round in ten years is none at once', async () => {
  const warned: string[] = []
  const listener = ({ message }: Error) => void warned.push(message)
  process.on('warning', listener)
  onTestFinished(() => void process.off('warning', listener))
  const rounds = new Maintenance({} as never, { idleMs: 5_000, keepDays: 7, schema: 'holdfast' })
  rounds.runWithin(3_650 * 86_400_000)
  // Warnings are told in the next turn.
  await new Promise((resolve) => setImmediate(resolve))
  await rounds.close()
  expect(warned).toEqual([])
})
