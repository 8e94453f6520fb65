import { type ActName, type AnyAct, acts, type ParamKinds, readParams } from '../../acts/index.js'
import { checkName, hashedKey, UsageError } from '../../base/index.js'
import type { McpContext } from './context.js'
import { argumentsOf, inputSchema, type Tool } from './tool.js'

const texts: Readonly<Record<ActName, readonly [title: string, description: string]>> = {
  'release-name': [
    'Ask for the release of a lock',
    'Asks the holders of a lock to release it. The holders decide when to stop their work.',
  ],
  'expire-lease': [
    'Expire a lease',
    "Revokes a lease, so that the name is free immediately. The holder's guarded writes are rejected.",
  ],
  'break-lock': [
    'Break a lock',
    'Ends the sessions that hold a lock. Everything that these sessions hold is lost immediately.',
  ],
  'run-schedule': [
    'Run a schedule now',
    'Requests a run of a schedule in addition to its ticks. With an input, enqueues the job of the schedule with this input instead.',
  ],
  'pause-schedule': ['Pause a schedule', 'Pauses a schedule: its ticks do not run until the schedule is resumed.'],
  'resume-schedule': ['Resume a schedule', 'Resumes a paused schedule.'],
  'override-schedule': [
    'Override the rule of a schedule',
    'Overrides the rule that a schedule has in the code. Without cron and everyMs, the rule in the code applies again.',
  ],
  'pause-queue': [
    'Pause a queue',
    'Pauses a queue: no worker claims its jobs until the queue is resumed. Running jobs continue.',
  ],
  'resume-queue': ['Resume a queue', 'Resumes a paused queue: workers claim its jobs again.'],
  'update-job': [
    'Change a job',
    'Changes a job that is waiting or ready: its input, its earliest start, its deadline or its priority. A new input deletes its failed attempts.',
  ],
  'retry-job': [
    'Retry a job',
    'Lets a cancelled, expired, discarded or buried job run again, or lets a waiting job run now.',
  ],
  'cancel-job': ['Cancel a job', 'Cancels a job. A running job receives a request to stop.'],
  'enqueue-job': ['Enqueue a job', 'Enqueues a job with the given input.'],
  'send-event': [
    'Send an event to a job',
    'Sends an event that the handler of a job waits for, or will wait for. Changes nothing if the job has ended.',
  ],
  'retry-jobs': [
    'Retry all jobs that a search finds',
    'Lets the found jobs run again: failed and retrying jobs, unless the search contains other states. If the result contains `next`, call the ' +
      'tool again with these parameters.',
  ],
  'cancel-jobs': [
    'Cancel all jobs that a search finds',
    'Cancels the found jobs that have not ended. If the result contains `next`, call the tool again with these parameters.',
  ],
  'discard-jobs': [
    'Discard all failed jobs that a search finds',
    'Moves the found failed jobs to the state discarded, so that they no longer count as failed. If the result contains `next`, call the tool ' +
      'again with these parameters.',
  ],
  'forget-delivery': [
    'Forget a delivery',
    'Deletes the recorded result of an idempotency key, so that the next delivery with this key runs the handler again.',
  ],
  'reset-limit': ['Reset a limit', 'Revokes all permits of a limit, and makes the full burst of its rate available.'],
  'drain-instance': [
    'Drain an instance',
    'Asks an instance to finish its work and to accept no new work. This is permanent for the process.',
  ],
}

const paramTexts: Readonly<Record<string, string>> = {
  name: 'Name of the object.',
  id: 'ID of the job.',
  search: 'Terms that a job must match, such as: kind:send-email state:failed since:1h. See the jobs tool.',
  after: 'Value from next in the previous result.',
  before: 'Value from next in the previous result.',
  key: '64-bit key in decimal, instead of name.',
  within: 'Number of seconds allowed for running work to finish.',
  cron: 'Cron rule, such as: 0 3 * * *',
  timezone: 'IANA time zone of the cron rule. Default UTC.',
  everyMs: 'Interval in milliseconds, instead of cron.',
  queue: 'Queue of the job.',
  kind: 'Kind of the job, which is the name of its definition.',
  input: 'Input of the job as JSON text. Must match the JSON schema of the kind, if there is one.',
  runAt: 'Earliest start. Default: now.',
  event: 'Name of the event.',
  data: 'Data of the event as JSON text. Default null.',
  priority: 'Priority. Jobs with a larger number run first. Default 0.',
  confirm:
    'True runs the action. Otherwise the tool changes nothing and returns the effects that the action would have.',
  reason: 'Why the action is necessary, for the audit log. Required with confirm.',
}

const ownParamTexts: Partial<Record<ActName, Readonly<Record<string, string>>>> = {
  'drain-instance': { id: 'ID of the instance, as returned by the instances tool.' },
  'forget-delivery': { key: 'Idempotency key of the delivery.' },
  'send-event': { key: 'Idempotency key. A second event with the same name and key is ignored.' },
}

/** Parameters of every act's tool. */
const confirmation = { confirm: 'flag', reason: 'text' } as const

/** Returns a tool that previews an act, and runs the act once the call confirms it. */
export function actTool(name: ActName): Tool {
  const act = acts[name] as AnyAct
  const takesKey = act.needs.key === 'key'
  const [title, description] = texts[name]
  const { namespace, key, ...needs } = act.needs
  const optional: ParamKinds = {
    ...act.params,
    ...(namespace === undefined ? {} : { namespace }),
    ...(takesKey ? { key: 'key' as const } : {}),
    ...confirmation,
  }
  const required: ParamKinds = { ...needs, ...(key === undefined || takesKey ? {} : { key }) }
  return {
    name,
    title,
    description: `${description} Changes nothing without confirm. Show the effects to the user and ask before you confirm.`,
    inputSchema: inputSchema(required, optional, { ...paramTexts, ...ownParamTexts[name] }),
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false },
    narrowedBy: [],
    call: (context, given) => run(context, name, argumentsOf(given)),
  }
}

async function run(context: McpContext, name: ActName, given: object) {
  const { confirm, reason, ...params } = given as Readonly<Record<string, unknown>>
  const read = readParams(name, { confirm, reason }, { needs: {}, params: confirmation })
  const request = { name, params: withDefaults(context, name, params), actor: context.actor, reason: read.reason }
  if (!read.confirm) {
    const next = 'Nothing was changed. To run the action, call the tool again with confirm: true and a reason.'
    return { done: false, preview: await context.acts.preview(request), next }
  }
  if (read.reason === undefined) {
    const hint = 'The audit log records why an action ran. If the reason is not clear, ask the user.'
    throw new UsageError('Expected a reason, got nothing', hint)
  }
  const outcome = await context.acts.run(request)
  if (outcome.count === undefined) return outcome
  // The IDs of many jobs would only fill the model's context.
  const { result: _, ...short } = outcome
  return short
}

/** Adds the namespace, and the key of the lock or lease in the call. */
function withDefaults(context: McpContext, name: ActName, params: Readonly<Record<string, unknown>>): object {
  const { needs } = acts[name] as AnyAct
  const namespace = params.namespace ?? context.named({})
  if (needs.namespace !== undefined) return { ...params, namespace }
  if (needs.key !== 'key' || typeof namespace !== 'string' || typeof params.name !== 'string') return params
  return { key: hashedKey(namespace, checkName(params.name)).key, ...params, namespace }
}
