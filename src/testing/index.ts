// Test kit for programs that use Holdfast. It works with any test runner, on a real database and without mocks.
export { type DrainOptions, drain } from './drain.js'
export { emptyQueues } from './empty-queues.js'
export { type EnqueuedJob, enqueued } from './enqueued.js'
export { TestTimeoutError } from './errors.js'
export { type JobEndedOptions, jobEnded } from './job-ended.js'
export { passTime } from './time.js'
