import { hasEnded, type JobState } from '../base/index.js'
import { searchStateOf } from '../search/index.js'
import { act, type Consequence, inapplicable, type Outcome } from './act.js'
import { noSuchJob } from './jobs.js'

export const events = {
  'send-event': act({
    needs: { id: 'id', event: 'text' },
    params: { data: 'json', key: 'text' },
    async preview({ observer }, { id, event, data = 'null' }): Promise<Consequence> {
      const subject = `event "${event}" to job ${id}`
      const job = await observer.jobs.find(id)
      if (!job) return inapplicable(subject, noSuchJob(id))
      if (hasEnded(job.state)) return inapplicable(subject, endedText(id, job.state))
      const isAwaited = job.steps.some((step) => step.event === event && step.endedAt === null)
      const text = isAwaited
        ? `Sends the event "${event}" to job ${id}. The job waits for this event and continues.`
        : `Sends the event "${event}" to job ${id}. The job is not waiting for this event. The event is kept until the handler calls job.event().`
      const facts = [
        ['Kind', job.kind],
        ['State', job.state],
        ['Data', data.length > 200 ? `${data.slice(0, 197)}…` : data],
      ] as const
      return { subject, text, applies: true, dangerous: false, facts }
    },
    async run({ observer, asMember }, { id, event, data = 'null', key }): Promise<Outcome> {
      const job = await observer.jobs.find(id)
      const done =
        job !== null &&
        (await asMember(job.namespace ?? 'default', ({ jobs }) => jobs.send(id, event, JSON.parse(data), { key })))
      const text = !job
        ? noSuchJob(id)
        : done
          ? `Sent the event "${event}" to job ${id}.`
          : endedText(id, (await observer.jobs.find(id))?.state)
      return { done, text, result: { sent: done ? [id] : [] } }
    },
  }),
}

function endedText(id: number, state: JobState | undefined): string {
  return `Job ${id} is already ${state ? searchStateOf({ state }) : 'gone'} and receives no more events.`
}
