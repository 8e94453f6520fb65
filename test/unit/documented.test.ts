// Checks that everything that users of the package can call has a doc comment, because editors show doc comments.
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
  'fastify/plugin.ts',
  'nestjs/decorators.ts',
  'nestjs/module.ts',
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

/** Returns the undocumented classes, functions, public methods and accessors. Expects exports in two-space indentation. */
function undocumented(text: string): string[] {
  const lines = text.split('\n')
  const declares =
    /^export (?:abstract )?(?:async )?(?:class|function) (\w+)|^ {2}(?:async |static )*(?:get )?(\w+)(?:<[^(]*>)?\(/
  return lines.flatMap((line, at) => {
    const name = declares.exec(line)?.slice(1).find(Boolean)
    // A line that ends with a parenthesis is a call in a function.
    const isStatement = /^ {2}(if|for|while|switch|return|super)\b|\)$/.test(line)
    if (!name || name === 'constructor' || isStatement) return []
    const above = lines[at - 1]?.trim() ?? ''
    // The second signature of an overloaded method is directly below the first, which has the comment.
    const overload = above.startsWith(`${name}<`) || above.startsWith(`${name}(`)
    return above.endsWith('*/') || overload ? [] : [`${name} (line ${at + 1})`]
  })
}

test('undocumented finds a method without a comment', () => {
  expect(
    undocumented(
      '/** Yes. */\nexport class A {\n  constructor() {}\n  no(): void {}\n\n  /** Yes. */\n  yes(): void {}\n}',
    ),
  ).toEqual(['no (line 4)'])
})

test.each(rooms)('every public function, class and method in src/%s has a doc comment', (file) => {
  const text = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8')
  // The names of these getters and methods explain them.
  const selfExplanatory = new Set(['name', 'then'])
  const missing = undocumented(text).filter((found) => !selfExplanatory.has(found.split(' ')[0]!))
  expect(missing).toEqual([])
})
