// Whatever a user can call from the package's front door has a doc comment, which is what editors show.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const rooms = [
  'holdfast.ts',
  'locks/locks.ts',
  'locks/lock.ts',
  'locks/errors.ts',
  'leases/leases.ts',
  'leases/lease.ts',
  'leases/errors.ts',
  'once/once.ts',
  'once/errors.ts',
  'jobs/define.ts',
  'jobs/definition.ts',
  'jobs/errors.ts',
  'jobs/jobs.ts',
  'jobs/outcome.ts',
  'jobs/worker.ts',
  'http/webhooks.ts',
  'http/idempotent.ts',
  'http/protection.ts',
  'limits/limits.ts',
  'limits/permit.ts',
  'limits/errors.ts',
  'postgres/errors.ts',
  'base/errors.ts',
  'doctor/doctor.ts',
  'elections/elections.ts',
  'elections/campaign.ts',
  'elections/leadership.ts',
  'elections/errors.ts',
  'schedules/schedules.ts',
  'schedules/errors.ts',
  'shares/shares.ts',
  'shares/assignment.ts',
  'shares/owned-resource.ts',
  'shares/errors.ts',
  'telemetry/endpoint.ts',
  'telemetry/health.ts',
  'telemetry/instrument.ts',
  'telemetry/metrics.ts',
  'postgres/health.ts',
  'testing/drain.ts',
  'testing/empty-queues.ts',
  'testing/enqueued.ts',
  'testing/errors.ts',
  'testing/job-ended.ts',
  'testing/time.ts',
]

/** Exported classes and functions, and the public methods and accessors of the classes in this house's two-space style. */
function undocumented(text: string): string[] {
  const lines = text.split('\n')
  const declares =
    /^export (?:abstract )?(?:async )?(?:class|function) (\w+)|^ {2}(?:async |static )*(?:get )?(\w+)(?:<[^(]*>)?\(/
  return lines.flatMap((line, at) => {
    const name = declares.exec(line)?.slice(1).find(Boolean)
    if (!name || name === 'constructor' || /^ {2}(if|for|while|switch|return|super)\b/.test(line)) return []
    const above = lines[at - 1]?.trim() ?? ''
    // A further signature of an overloaded method stands right below the first, which has the comment.
    const overload = above.startsWith(`${name}<`) || above.startsWith(`${name}(`)
    return above.endsWith('*/') || overload ? [] : [`${name} (line ${at + 1})`]
  })
}

test('the check sees what has no comment', () => {
  expect(
    undocumented(
      '/** Yes. */\nexport class A {\n  constructor() {}\n  no(): void {}\n\n  /** Yes. */\n  yes(): void {}\n}',
    ),
  ).toEqual(['no (line 4)'])
})

test.each(rooms)('everything public in %s has a doc comment', (file) => {
  const text = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8')
  // Getters and methods whose meaning is their name.
  const plain = new Set(['name', 'then'])
  const missing = undocumented(text).filter((found) => !plain.has(found.split(' ')[0]!))
  expect(missing).toEqual([])
})
