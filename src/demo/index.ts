export { type DemoDatabase, DemoRunningError, openDemoDatabase } from './database.js'
export type { Verdict } from './proof.js'
export type { DemoEvent, DemoEventKind, DemoReporter } from './reporter.js'
export { type DemoOutcome, DemoRunner, type LossSummary } from './runner.js'
