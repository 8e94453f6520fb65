import type { Member } from './fleet.js'

/** Time within which an instance that resumes after a freeze normally detects that it has lost its work. */
const maxNoticeMs = 2_000

interface Freeze {
  /** Work that other instances have taken over. */
  readonly late: Set<string>
  ended: number
  /** Duration of the freeze. Undefined while the instance is frozen. */
  thawedAfterMs: number | undefined
}

/**
 * Counts the late results of frozen instances: work that another instance has taken over, and that the original
 * instance also ends after the freeze. Holdfast rejects such results. The proof checks that none of them is in the
 * company's data.
 */
export class LateWork {
  readonly #freezes = new Map<Member, Freeze>()
  readonly #onNoticed: (member: Member, ms: number, late: number) => void
  #count = 0

  /** Calls `onNoticed` when an instance has ended all of its late work after a freeze. */
  constructor(onNoticed: (member: Member, ms: number, late: number) => void) {
    this.#onNoticed = onNoticed
  }

  get count(): number {
    return this.#count
  }

  takenOver(member: Member, works: readonly string[]): void {
    const freeze = this.#freezeOf(member)
    for (const work of works) if (member.works.has(work)) freeze.late.add(work)
    this.#check(member, freeze)
  }

  thawed(member: Member, afterMs: number): void {
    const freeze = this.#freezeOf(member)
    freeze.thawedAfterMs = afterMs
    setTimeout(() => this.#finish(member, freeze), maxNoticeMs).unref()
    this.#check(member, freeze)
  }

  ended(member: Member, work: string): void {
    const freeze = this.#freezes.get(member)
    if (!freeze?.late.delete(work)) return
    freeze.ended++
    this.#count++
    this.#check(member, freeze)
  }

  #freezeOf(member: Member): Freeze {
    const freeze = this.#freezes.get(member) ?? { late: new Set(), ended: 0, thawedAfterMs: undefined }
    this.#freezes.set(member, freeze)
    return freeze
  }

  #check(member: Member, freeze: Freeze): void {
    if (freeze.thawedAfterMs !== undefined && freeze.late.size === 0) this.#finish(member, freeze)
  }

  #finish(member: Member, freeze: Freeze): void {
    if (this.#freezes.get(member) !== freeze) return
    this.#freezes.delete(member)
    this.#onNoticed(member, freeze.thawedAfterMs!, freeze.ended)
  }
}
