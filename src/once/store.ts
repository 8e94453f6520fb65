import { Batcher, hashedKey, isRetryable } from '../base/index.js'
import {
  type Database,
  type Executor,
  loadStatements,
  responseTimeoutMs,
  retryOnConflict,
  Sweeper,
  sqlstate,
  sqlstateOf,
} from '../postgres/index.js'
import type { StoredAnswer } from './answer.js'

export interface RunId {
  readonly key: string
  readonly token: string
}

export interface Claim extends RunId {
  /** Session number of the epoch to which the claim is bound. */
  readonly session: number
  readonly fingerprint: string | null
  readonly retainMs: number
}

export type ClaimResult =
  | { readonly state: 'claimed'; readonly fence: number }
  | { readonly state: 'in-flight'; readonly fingerprint: string | null }
  | { readonly state: 'done' | 'failed'; readonly fingerprint: string | null; readonly written: StoredAnswer }
  /** Another claim or a caller's transaction holds the lock on the key, or another transaction has locked the row. */
  | { readonly state: 'busy' }
  /** Another claim committed first, so the claim must be retried immediately. */
  | { readonly state: 'retry' }
  /** The server has restarted, and a run that began before the restart may not have ended yet. */
  | { readonly state: 'in-grace' }

export interface RunResult extends RunId {
  readonly state: 'done' | 'failed'
  readonly written: StoredAnswer
  readonly retainMs: number
}

/** Whether a result has been recorded, or the error of this result alone. */
type FinishResult = boolean | { readonly error: unknown }

interface ClaimRow {
  state: ClaimResult['state']
  fence: string | null
  fingerprint: string | null
  value: string | null
  body: Uint8Array | null
}

export interface OnceStoreOptions {
  readonly database: Database
  readonly schema: string
  readonly namespace: string
  readonly instanceId: string
}

type StatementName =
  | 'claim'
  | 'claim_batch'
  | 'finish'
  | 'finish_batch'
  | 'release'
  | 'release_unfinished'
  | 'run_state'
  | 'forget'
  | 'sweep'

/** Each claim in a batch briefly uses an entry in the server's shared lock table. */
const maxClaims = 100
const maxSwept = 1_000
const sweepEveryMs = 60_000

/** Runs the statements on `holdfast.delivery`, in batches. */
export class OnceStore {
  readonly sql
  readonly #options: OnceStoreOptions
  readonly #claims = new Batcher<Claim, ClaimResult>((claims) => this.#claimAll(claims), { maxBatch: maxClaims })
  readonly #results = new Batcher<RunResult, FinishResult>((endings) => this.#finishAll(endings), {
    maxBatch: maxClaims,
  })
  readonly #releases = new Batcher<RunId, undefined>((runs) => this.#releaseAll(runs))
  readonly #sweeper = new Sweeper({
    everyMs: sweepEveryMs,
    sweep: async () => (await this.sweep()) === maxSwept,
  })

  constructor(options: OnceStoreOptions) {
    this.#options = options
    this.sql = loadStatements<StatementName>(new URL('./once.sql', import.meta.url), options.schema)
  }

  claim(claim: Claim): Promise<ClaimResult> {
    this.#sweeper.sweepIfDue()
    return this.#claims.add(claim)
  }

  /** Claims a key through `executor`, which is the caller's transaction unless `isOwnTransaction` is set. */
  async claimIn(executor: Executor, claim: Claim, isOwnTransaction = false): Promise<ClaimResult> {
    const { namespace, instanceId } = this.#options
    const { key, token, session, fingerprint, retainMs } = claim
    const values = [
      namespace,
      key,
      lockKeyOf(namespace, key),
      token,
      String(session),
      fingerprint,
      String(retainMs),
      isOwnTransaction,
      instanceId,
    ]
    const [row] = await executor.query<ClaimRow>(this.sql.claim.text, values)
    return claimResultOf(row!)
  }

  /** Records a result. Returns true if the result has been recorded now or before. */
  async finish(result: RunResult): Promise<boolean> {
    if (result.written.body !== null) return this.#finishOne(result)
    const recorded = await this.#results.add(result)
    if (typeof recorded === 'object') throw recorded.error
    return recorded
  }

  /**
   * Records a result in a transaction. `began` identifies the transaction of a handler. Returns `ended` if the handler
   * has ended that transaction.
   */
  async finishIn(
    tx: Executor,
    { key, token, state, written, retainMs }: RunResult,
    began: string | null = null,
  ): Promise<'recorded' | 'taken over' | 'ended'> {
    const values = [this.#options.namespace, key, token, state, written.value, written.body, String(retainMs), began]
    const [row] = await tx.query<{ result: 'recorded' | 'taken over' | 'ended' }>(this.sql.finish.text, values)
    return row!.result
  }

  async release(run: RunId): Promise<void> {
    await this.#releases.add(run)
  }

  /**
   * Finds out whether a commit whose response was lost has succeeded. Frees the key if the transaction was rolled back.
   */
  async resolveUnknownEnd({ key, token }: RunId): Promise<'rolled back' | 'recorded' | 'taken over'> {
    const { database, namespace } = this.#options
    // The statement's time limit is shorter than the connection's timeout, so that the server gives up first.
    const values = [namespace, key, token, String(responseTimeoutMs * 0.8)]
    const released = await database.query(this.sql.release_unfinished.text, values, responseTimeoutMs)
    if (released.length > 0) return 'rolled back'
    const [row] = await database.query(this.sql.run_state.text, [namespace, key, token], responseTimeoutMs)
    return row ? 'recorded' : 'taken over'
  }

  async forget(key: string): Promise<boolean> {
    const { database, namespace } = this.#options
    const [row] = await database.query<{ answered: boolean }>(this.sql.forget.text, [namespace, key])
    return row?.answered ?? false
  }

  async #claimAll(claims: readonly Claim[]): Promise<ClaimResult[]> {
    if (claims.length === 1) return [await this.#claimOne(claims[0]!)]
    const { namespace, instanceId } = this.#options
    // If a batch contains several claims for one key, only the first claim is sent. The other claims are retried.
    const first = new Map<string, Claim>()
    for (const claim of claims) if (!first.has(claim.key)) first.set(claim.key, claim)
    const asked = [...first.values()].map(({ key, token, session, fingerprint, retainMs }) => ({
      key,
      lock_key: lockKeyOf(namespace, key),
      token,
      session,
      fingerprint,
      retain_ms: retainMs,
    }))
    const values = [namespace, JSON.stringify(asked), true, instanceId]
    const rows = await this.#retryingExecutor()
      .query<ClaimRow & { key: string }>(this.sql.claim_batch.text, values)
      .catch(nullIfLocked)
    // One locked row fails the whole batch, so the claims are sent separately.
    if (rows === null) return Promise.all(claims.map((claim) => this.#claimOne(claim)))
    const results = new Map(rows.map((row) => [row.key, claimResultOf(row)]))
    return claims.map((claim) => (first.get(claim.key) === claim ? results.get(claim.key)! : { state: 'retry' }))
  }

  async #claimOne(claim: Claim): Promise<ClaimResult> {
    return (await this.claimIn(this.#retryingExecutor(), claim, true).catch(nullIfLocked)) ?? { state: 'busy' }
  }

  async #finishAll(results: readonly RunResult[]): Promise<FinishResult[]> {
    if (results.length === 1) return [await this.#finishOne(results[0]!)]
    const answered = results.map(({ key, token, state, written, retainMs }) => ({
      key,
      token,
      state,
      value: written.value,
      retain_ms: retainMs,
    }))
    const values = [this.#options.namespace, JSON.stringify(answered)]
    try {
      const rows = await this.#retryingExecutor().query<{ token: string }>(this.sql.finish_batch.text, values)
      const recorded = new Set(rows.map(({ token }) => token))
      return results.map(({ token }) => recorded.has(token))
    } catch (error) {
      if (isRetryable(error)) throw error
      // One result that PostgreSQL rejects fails the whole batch, so the results are recorded separately.
      return Promise.all(results.map((result) => this.#finishOne(result).catch((error) => ({ error }))))
    }
  }

  async #finishOne(result: RunResult): Promise<boolean> {
    return (await this.finishIn(this.#retryingExecutor(), result)) === 'recorded'
  }

  async #releaseAll(runs: readonly RunId[]): Promise<undefined[]> {
    const rows = JSON.stringify(runs.map(({ key, token }) => ({ key, token })))
    await this.#retryingExecutor().query(this.sql.release.text, [this.#options.namespace, rows])
    return runs.map(() => undefined)
  }

  /** Wraps the pool with a response timeout and with retries after serialization conflicts. */
  #retryingExecutor(): Executor {
    const { database } = this.#options
    return {
      query: <Row>(text: string, values?: readonly unknown[]) =>
        retryOnConflict(() => database.query<Row>(text, values, responseTimeoutMs)),
    }
  }

  /** Removes one batch of expired rows. Returns the number of removed rows. */
  async sweep(): Promise<number> {
    const [row] = await this.#retryingExecutor().query<{ removed: number }>(this.sql.sweep.text, [maxSwept])
    return row!.removed
  }
}

/** Returns null if another transaction has locked a row for longer than a claim waits. */
function nullIfLocked(error: unknown): null {
  if (sqlstateOf(error) === sqlstate.lockNotAvailable) return null
  throw error
}

function claimResultOf({ state, fence, fingerprint, value, body }: ClaimRow): ClaimResult {
  if (state === 'claimed') return { state, fence: Number(fence) }
  if (state === 'in-flight') return { state, fingerprint }
  if (state === 'done' || state === 'failed') return { state, fingerprint, written: { value, body } }
  return { state }
}

/** A user's lock name cannot contain a zero byte, so these keys cannot collide with lock names. */
function lockKeyOf(namespace: string, key: string): string {
  return hashedKey(namespace, `\0once\0${key}`).key
}
