import { defineConfig } from 'vitest/config'
import LongFirst from './test/setup/long-first.ts'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/setup/server.ts',
    sequence: { sequencer: LongFirst },
    reporters: ['default', './test/setup/reporter.ts'],
    pool: 'forks',
    // Files that follow each other share a process and its modules: loading the modules again for each file would be a quarter of all work.
    isolate: false,
    // Each worker brings connections and load to one server: with more workers, the tests of timing would be wrong.
    maxWorkers: 5,
    // In the few files whose tests only start processes and wait for them.
    maxConcurrency: 3,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
