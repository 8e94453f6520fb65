import type { Campaign, CampaignOptions, Holdfast, Leadership } from '../../src/index.js'
import { until } from '../setup/facts.js'

/** A campaign of an instance, with its terms and errors. */
export interface Candidate {
  readonly holdfast: Holdfast
  readonly campaign: Campaign
  readonly terms: Leadership[]
  readonly errors: unknown[]
}

export interface CampaignScript extends CampaignOptions {
  /** Function of the leader. By default, it leads until its signal aborts. */
  work?: (leadership: Leadership) => unknown
}

/** Starts a campaign, and records each term. */
export function campaign(
  holdfast: Holdfast,
  name: string,
  { work = untilAborted, ...options }: CampaignScript = {},
): Candidate {
  const terms: Leadership[] = []
  const errors: unknown[] = []
  holdfast.on('election.failed', ({ error, ...event }) => event.name === name && errors.push(error))
  const started = holdfast.elections.campaign(name, options, async (leadership) => {
    terms.push(leadership)
    await work(leadership)
  })
  return { holdfast, campaign: started, terms, errors }
}

export function untilAborted({ signal }: { signal: AbortSignal }): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve())
  })
}

/** Waits until one of the candidates leads, and returns it. */
export function leading(candidates: readonly Candidate[], withinMs?: number): Promise<Candidate> {
  return until('a candidate leads', () => candidates.find(({ campaign }) => campaign.leads), withinMs)
}
