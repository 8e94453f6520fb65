// A kit for tests of programs that use Holdfast, against their own database, with any runner. It runs, awaits, lists and
// removes jobs as the rooms do; it replaces nothing, so what passes here passes for the reasons that it will elsewhere.
export { type DrainOptions, drain } from './drain.js'
export { emptyQueues } from './empty-queues.js'
export { type EnqueuedJob, enqueued } from './enqueued.js'
export { TestTimeoutError } from './errors.js'
export { type JobEndedOptions, jobEnded } from './job-ended.js'
export { passTime } from './time.js'
