import { Gather, hashedKey } from '../base/index.js'
import {
  answerWithinMs,
  type Database,
  despiteCollisions,
  type Executor,
  loadStatements,
  Sweeper,
} from '../postgres/index.js'
import type { Written } from './answer.js'

/** A run, as its row knows it. */
interface RunId {
  readonly key: string
  readonly token: string
}

export interface Claim extends RunId {
  /** The number of the life that it is bound to. */
  readonly session: number
  readonly fingerprint: string | null
  readonly retainMs: number
}

/** What a claim found. */
export type Seen =
  | { readonly state: 'claimed'; readonly fence: number }
  | { readonly state: 'in-flight'; readonly fingerprint: string | null }
  | { readonly state: 'done' | 'failed'; readonly fingerprint: string | null; readonly written: Written }
  /** Somebody decides about the key at this very moment, or a transaction of a caller runs it. */
  | { readonly state: 'busy' }
  /** Somebody was faster: worth another look at once. */
  | { readonly state: 'again' }
  /** The server has restarted, and somebody may still believe in a run from before. */
  | { readonly state: 'unsettled' }

export interface Ending extends RunId {
  readonly state: 'done' | 'failed'
  readonly written: Written
  readonly retainMs: number
}

interface ClaimRow {
  key: string
  state: Seen['state']
  fence: string | null
  fingerprint: string | null
  value: string | null
  body: Uint8Array | null
}

export interface LedgerOptions {
  readonly database: Database
  readonly schema: string
  readonly namespace: string
  readonly instanceId: string
}

type Name = 'claim' | 'finish' | 'release' | 'withdraw' | 'recorded' | 'hurry' | 'is_working' | 'forget' | 'sweep'

/** Each claim of a batch takes a place in the server's lock table for a moment, and that table is everybody's. */
const mostClaims = 100
const sweptAtOnce = 1_000
const sweepEveryMs = 60_000

/** The rows of deliveries, asked in batches. */
export class Ledger {
  readonly sql
  readonly #options: LedgerOptions
  readonly #claims = new Gather<Claim, Seen>((claims) => this.#claimAll(claims), { most: mostClaims })
  readonly #endings = new Gather<Ending, boolean>((endings) => this.#finishAll(endings), { most: mostClaims })
  readonly #releases = new Gather<RunId, undefined>((runs) => this.#releaseAll(runs))
  readonly #sweeper = new Sweeper({
    everyMs: sweepEveryMs,
    sweep: async () => (await this.sweep()) === sweptAtOnce,
  })

  constructor(options: LedgerOptions) {
    this.#options = options
    this.sql = loadStatements<Name>(new URL('./once.sql', import.meta.url), options.schema)
  }

  claim(claim: Claim): Promise<Seen> {
    this.#sweeper.sometimes()
    return this.#claims.ask(claim)
  }

  /** A claim that the transaction of a caller makes for itself. */
  async claimIn(tx: Executor, claim: Claim): Promise<Seen> {
    const [row] = await tx.query<ClaimRow>(this.sql.claim.text, this.#claimValues([claim], false))
    return seenIn(row!)
  }

  /** Whether the run could still record its answer, or had done so already. */
  finish(ending: Ending): Promise<boolean> {
    if (ending.written.body === null) return this.#endings.ask(ending)
    return this.finishIn(this.#patient(), ending)
  }

  /** The same, in a transaction. */
  async finishIn(tx: Executor, ending: Ending): Promise<boolean> {
    const rows = await tx.query(this.sql.finish.text, this.#finishValues([ending], ending.written.body))
    return rows.length > 0
  }

  async release(run: RunId): Promise<void> {
    await this.#releases.ask(run)
  }

  /**
   * How a run ended whose transaction ended nobody knows how. If it was rolled back, the key is let go.
   */
  async settle({ key, token }: RunId): Promise<'rolled back' | 'recorded' | 'taken over'> {
    const { database, namespace } = this.#options
    // A little less than the patience with the connection, so that it is the server that gives up.
    const values = [namespace, key, token, String(answerWithinMs * 0.8)]
    const freed = await database.query(this.sql.withdraw.text, values, answerWithinMs)
    if (freed.length > 0) return 'rolled back'
    const [row] = await database.query(this.sql.recorded.text, [namespace, key, token], answerWithinMs)
    return row ? 'recorded' : 'taken over'
  }

  async forget(key: string): Promise<boolean> {
    const { database, namespace } = this.#options
    const [row] = await database.query<{ answered: boolean }>(this.sql.forget.text, [namespace, key])
    return row?.answered ?? false
  }

  async #claimAll(claims: readonly Claim[]): Promise<Seen[]> {
    // Of several for one key the first decides; the others look again.
    const first = new Map<string, Claim>()
    for (const claim of claims) if (!first.has(claim.key)) first.set(claim.key, claim)
    const values = this.#claimValues([...first.values()], true)
    const rows = await this.#patient().query<ClaimRow>(this.sql.claim.text, values)
    const seen = new Map(rows.map((row) => [row.key, seenIn(row)]))
    return claims.map((claim) => (first.get(claim.key) === claim ? seen.get(claim.key)! : { state: 'again' }))
  }

  #claimValues(claims: readonly Claim[], alone: boolean): unknown[] {
    const { namespace, instanceId } = this.#options
    const asked = claims.map(({ key, token, session, fingerprint, retainMs }) => ({
      key,
      // No name of a lock can have a zero byte, so no lock of the user's stands in the way.
      lock_key: hashedKey(namespace, `\0once\0${key}`).key,
      token,
      session,
      fingerprint,
      retain_ms: retainMs,
    }))
    return [namespace, JSON.stringify(asked), alone, instanceId]
  }

  async #finishAll(endings: readonly Ending[]): Promise<boolean[]> {
    const values = this.#finishValues(endings, null)
    const rows = await this.#patient().query<{ key: string }>(this.sql.finish.text, values)
    const mine = new Set(rows.map(({ key }) => key))
    return endings.map(({ key }) => mine.has(key))
  }

  #finishValues(endings: readonly Ending[], body: Uint8Array | null): unknown[] {
    const answered = endings.map(({ key, token, state, written, retainMs }) => ({
      key,
      token,
      state,
      value: written.value,
      retain_ms: retainMs,
    }))
    return [this.#options.namespace, JSON.stringify(answered), body]
  }

  async #releaseAll(runs: readonly RunId[]): Promise<undefined[]> {
    const asked = JSON.stringify(runs.map(({ key, token }) => ({ key, token })))
    await this.#patient().query(this.sql.release.text, [this.#options.namespace, asked])
    return runs.map(() => undefined)
  }

  /** The pool, with the patience of this room; and where statements collide, with the tries it takes. */
  #patient(): Executor {
    const { database } = this.#options
    return {
      query: <Row>(text: string, values?: readonly unknown[]) =>
        despiteCollisions(() => database.query<Row>(text, values, answerWithinMs)),
    }
  }

  /** Removes one piece of what has expired; answers with how many that were. */
  async sweep(): Promise<number> {
    const [row] = await this.#patient().query<{ removed: number }>(this.sql.sweep.text, [sweptAtOnce])
    return row!.removed
  }
}

function seenIn({ state, fence, fingerprint, value, body }: ClaimRow): Seen {
  if (state === 'claimed') return { state, fence: Number(fence) }
  if (state === 'in-flight') return { state, fingerprint }
  if (state === 'done' || state === 'failed') return { state, fingerprint, written: { value, body } }
  return { state }
}
