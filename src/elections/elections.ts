import {
  abortSignal,
  Calls,
  callback,
  DrainingError,
  flag,
  type OptionsAndWork,
  readOptions,
  readWork,
  resultWithin,
  UsageError,
  whenAborted,
} from '../base/index.js'
import { type HealthReason, loadStatements } from '../postgres/index.js'
import { Campaign, type CampaignOptions, type CampaignStatements, type ElectionsOptions } from './campaign.js'
import { CandidateRow, type CandidateStatements } from './candidate-row.js'
import { ElectionPoller, type Leader } from './election-poller.js'
import type { Leadership } from './leadership.js'
import { checkElectionName, electionKey } from './names.js'

const rules = {
  preferred: flag,
  eligible: callback<() => boolean | Promise<boolean>>('a function that returns whether this instance may lead'),
}

/**
 * Leader election: among all instances that campaign for a name, at most one leads at a time.
 *
 * @example
 * holdfast.elections.campaign('indexer', async ({ signal, term }) => {
 *   while (!signal.aborted) await indexNext({ signal, term })
 * })
 */
export class Elections {
  readonly #options: ElectionsOptions
  readonly #sql: CampaignStatements & CandidateStatements
  readonly #poller: ElectionPoller
  readonly #campaigns = new Map<string, Campaign>()
  /** Rows of preferred candidates by election. A row outlives its campaign, because its deletion can fail. */
  readonly #rows = new Map<string, CandidateRow>()
  readonly #draining = new AbortController()
  readonly #calls = new Calls()

  /** @internal */
  constructor(options: ElectionsOptions) {
    const { database, presence, namespace, schema } = options
    this.#options = options
    const sql = loadStatements<keyof (CampaignStatements & CandidateStatements) | 'read_elections'>(
      new URL('./elections.sql', import.meta.url),
      schema,
    )
    this.#sql = sql
    this.#poller = new ElectionPoller({ database, presence, namespace, statement: sql.read_elections })
  }

  /**
   * Starts a campaign: runs `work` in each of this instance's terms, until the campaign or the instance is closed.
   *
   * - When `work` returns, the instance steps down and becomes a candidate again after 1 s.
   * - When `work` throws, the `election.failed` event is emitted, and the instance becomes a candidate again after a
   *   pause that grows from 2 s to 1 min.
   * - When `signal` aborts, `work` should stop. The instance becomes a candidate again only after `work` has finished.
   *   After a request to step down, the instance keeps the name until then, so that no other instance leads at the same
   *   time.
   *
   * @example
   * const campaign = holdfast.elections.campaign('indexer', { preferred: true }, work)
   */
  campaign(name: string, work: (leadership: Leadership) => Promise<unknown> | unknown): Campaign
  /** Starts a campaign with options. */
  campaign(
    name: string,
    options: CampaignOptions,
    work: (leadership: Leadership) => Promise<unknown> | unknown,
  ): Campaign
  /** @internal */
  campaign(
    name: string,
    ...rest: OptionsAndWork<CampaignOptions, (leadership: Leadership) => Promise<unknown> | unknown>
  ): Campaign {
    checkElectionName(name)
    const [options, work] = readWork('elections.campaign', rest)
    const read = readOptions('elections.campaign', options, rules)
    this.#calls.throwIfClosed()
    this.#draining.signal.throwIfAborted()
    if (this.#campaigns.has(name)) {
      throw new UsageError(
        `This instance is already campaigning for "${name}"`,
        'Use the campaign that elections.campaign returned, or close it before you start another.',
      )
    }
    const { schema, namespace } = this.#options
    const notification = [schema, `election-changed ${electionKey(namespace, name)}`] as const
    const common = { ...this.#options, poller: this.#poller, statements: this.#sql }
    const row = read.preferred ? (this.#rows.get(name) ?? new CandidateRow(name, common, notification)) : undefined
    if (row) this.#rows.set(name, row)
    const context = { ...common, row, notification }
    const campaign = new Campaign(name, context, work, read)
    this.#campaigns.set(name, campaign)
    void campaign.whenClosed.then(() => this.#campaigns.delete(name))
    return campaign
  }

  /**
   * Returns the announced leader, or null if there is none. Use this method only in followers. Work that requires
   * leadership belongs inside a campaign.
   *
   * @example
   * const leader = await holdfast.elections.leader('indexer')
   */
  async leader(name: string): Promise<Leader | null> {
    checkElectionName(name)
    this.#calls.throwIfClosed()
    return (await this.#poller.read(name)).leader
  }

  /**
   * Yields the current leader and then every new leader, or null while there is no leader. Skips intermediate changes
   * while your loop body is running. Ends when the signal aborts or the instance closes.
   *
   * @example
   * for await (const leader of holdfast.elections.watch('indexer', { signal })) route.to(leader?.instance)
   */
  watch(name: string, options?: { signal?: AbortSignal | undefined }): AsyncGenerator<Leader | null, void, undefined> {
    checkElectionName(name)
    const { signal } = readOptions('elections.watch', options, { signal: abortSignal })
    this.#calls.throwIfClosed()
    return this.#watch(name, signal)
  }

  /** @internal */
  onElectionChanged(key: string): void {
    this.#poller.onElectionChanged(key)
  }

  /** @internal Returns this instance's open campaigns. */
  get campaigns(): readonly Campaign[] {
    return [...this.#campaigns.values()]
  }

  /** @internal Returns the failures that keep this instance's campaigns from leading. */
  troubles(): HealthReason[] {
    return this.campaigns.flatMap(({ trouble }) => trouble ?? [])
  }

  /**
   * @internal Closes all campaigns immediately, because a term does not end by itself. Followers continue to receive
   * changes.
   */
  async drain(): Promise<void> {
    this.#draining.abort(new DrainingError('instance'))
    await Promise.all(this.campaigns.map((campaign) => campaign.close()))
  }

  /** @internal Waits up to the expiry until this instance's leaders have finished. */
  async close(): Promise<void> {
    this.#calls.close()
    const closing = this.campaigns.map((campaign) => campaign.close())
    await resultWithin(this.#options.expiryMs, Promise.all(closing))
    await this.#poller.close()
  }

  async *#watch(name: string, signal: AbortSignal | undefined): AsyncGenerator<Leader | null, void, undefined> {
    let latest: Leader | null | undefined
    let wake = () => {}
    let failure: { error: unknown } | undefined
    const unfollow = this.#poller.follow(name, {
      onState: ({ leader }) => {
        latest = leader
        wake()
      },
      onError: (error) => {
        failure = { error }
        wake()
      },
    })
    const forgets = [signal, this.#calls.closing].map((given) => whenAborted(given, () => wake()))
    let shown: Leader | null | undefined
    try {
      while (!signal?.aborted && !this.#calls.closing.aborted) {
        if (failure) throw failure.error
        if (latest !== undefined && (shown === undefined || latest?.term !== shown?.term)) {
          shown = latest
          yield shown
        } else {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      }
    } finally {
      unfollow()
      for (const forget of forgets) forget()
    }
  }
}
