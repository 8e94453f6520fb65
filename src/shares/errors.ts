import { HoldfastError, messageOf } from '../base/index.js'

/** One resource whose work failed, and why. */
export interface ResourceFailure {
  readonly resource: string
  readonly error: unknown
}

/**
 * The work on some resources failed here. All the others were worked on first. Those that failed are not recorded as done:
 * other instances try them too, and so does a later call.
 */
export class ResourcesFailedError extends HoldfastError {
  readonly share: string
  readonly failed: readonly ResourceFailure[]
  /** What this call has done. */
  readonly done: readonly string[]
  /** What this call left to others, or found done by them. */
  readonly skipped: readonly string[]

  constructor(share: string, failed: readonly ResourceFailure[], done: readonly string[], skipped: readonly string[]) {
    const [{ resource, error }] = failed as [ResourceFailure]
    const total = failed.length + done.length + skipped.length
    const which = failed.length === 1 ? `"${resource}"` : `the first of them "${resource}"`
    super(`${failed.length} of ${total} resources of "${share}" failed, ${which}: ${messageOf(error)}`, {
      code: 'RESOURCES_FAILED',
      retryable: true,
      hint: '`failed` has every resource with its error. A later call in the same round works on these only.',
      cause: error,
    })
    this.share = share
    this.failed = failed
    this.done = done
    this.skipped = skipped
  }
}

/** Why an owner is to let go of a resource. */
export type HandoverReason = 'moved' | 'dropped' | 'closing'

const reasonTexts: Record<HandoverReason, string> = {
  moved: 'it is to be owned by another instance now',
  dropped: 'it is no resource of the share any more',
  closing: 'this instance takes part no more',
}

/** The reason of an owner's signal when it is to let go. It still owns the resource: the next one waits until it has ended. */
export class ResourceMovedError extends HoldfastError {
  readonly share: string
  readonly resource: string
  readonly reason: HandoverReason

  constructor(share: string, resource: string, reason: HandoverReason) {
    super(`"${resource}" of "${share}" is to be let go: ${reasonTexts[reason]}`, {
      code: 'RESOURCE_MOVED',
      retryable: true,
      hint: 'Finish or stop, then return: the next owner waits for it.',
    })
    this.share = share
    this.resource = resource
    this.reason = reason
  }
}
