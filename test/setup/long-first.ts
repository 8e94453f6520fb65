import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take more than 40 s, the longest first. */
const longFiles = [
  'test/package/package.test.ts',
  'test/fault/restores.test.ts',
  'test/log/mistakes.test.ts',
  'test/property/rooms.test.ts',
  'test/embedded/embedded.test.ts',
  'test/examples/examples.test.ts',
  'test/fault/jobs-bad-times.test.ts',
  'test/fault/everything.test.ts',
  'test/cli/lock-run.test.ts',
  'test/stacks/contract.test.ts',
  'test/fault/jobs-schedules.test.ts',
  'test/property/schedules.test.ts',
  'test/fault/failover.test.ts',
  'test/fault/shares-owners.test.ts',
  'test/permutations/permutations.test.ts',
  'test/jobs/windows.test.ts',
  'test/jobs/plans.test.ts',
]

/** Starts long files first. By default, the largest files start first, and the run ends with one worker that runs a short file with long tests. */
export default class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = longFiles.indexOf(relative(this.ctx.config.root, moduleId))
      return at < 0 ? longFiles.length : at
    }
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}
