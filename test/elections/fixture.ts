import type { Campaign, CampaignOptions, Holdfast, Leadership } from '../../src/index.js'
import { until } from '../setup/facts.js'

/** What an instance saw of its terms. */
export interface Candidate {
  readonly holdfast: Holdfast
  readonly campaign: Campaign
  readonly terms: Leadership[]
  readonly errors: unknown[]
}

export interface CampaignScript extends CampaignOptions {
  /** What the leader does. Otherwise it leads until its signal aborts. */
  work?: (leadership: Leadership) => unknown
}

/** Campaigns, and notes each term. */
export function campaign(
  holdfast: Holdfast,
  name: string,
  { work = untilAborted, ...options }: CampaignScript = {},
): Candidate {
  const terms: Leadership[] = []
  const errors: unknown[] = []
  holdfast.on('election.failed', ({ error, ...event }) => event.name === name && errors.push(error))
  const started = holdfast.elections.campaign(
    name,
    async (leadership) => {
      terms.push(leadership)
      await work(leadership)
    },
    options,
  )
  return { holdfast, campaign: started, terms, errors }
}

export function untilAborted({ signal }: { signal: AbortSignal }): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve())
  })
}

/** The one of them that leads, once one does. */
export function leading(candidates: readonly Candidate[], withinMs?: number): Promise<Candidate> {
  return until('somebody leads', () => candidates.find(({ campaign }) => campaign.leads), withinMs)
}
