import { HoldfastError, messageOf } from '../base/index.js'

/** Resource whose work failed, with its error. */
export interface ResourceFailure {
  readonly resource: string
  readonly error: unknown
}

/**
 * Thrown when a call finishes, if the work on some resources failed. All other resources have been processed. Failed
 * resources are not recorded as done, so other instances and later calls try them again.
 */
export class ResourcesFailedError extends HoldfastError {
  readonly share: string
  readonly failed: readonly ResourceFailure[]
  /** Resources that this call processed. */
  readonly done: readonly string[]
  /** Resources that this call left to other instances, or that other instances had completed. */
  readonly skipped: readonly string[]

  constructor(share: string, failed: readonly ResourceFailure[], done: readonly string[], skipped: readonly string[]) {
    const [{ resource, error }] = failed as [ResourceFailure]
    const total = failed.length + done.length + skipped.length
    const which = failed.length === 1 ? `"${resource}"` : `starting with "${resource}"`
    super(`${failed.length} of ${total} resources of "${share}" failed, ${which}: ${messageOf(error)}`, {
      code: 'RESOURCES_FAILED',
      retryable: true,
      hint: 'The property `failed` lists every failed resource with its error. A later call in the same round processes only the failed resources.',
      cause: error,
    })
    this.share = share
    this.failed = failed
    this.done = done
    this.skipped = skipped
  }
}

/** Reason why an owner must release a resource. */
export type HandoverReason = 'moved' | 'dropped' | 'closing'

const reasonTexts: Record<HandoverReason, string> = {
  moved: 'another instance is the next owner',
  dropped: 'the resource no longer belongs to the share',
  closing: 'this instance is leaving the share',
}

/**
 * Abort reason of an owner's signal before a handover. The owner keeps the resource until the owner's function ends.
 */
export class ResourceMovedError extends HoldfastError {
  readonly share: string
  readonly resource: string
  readonly reason: HandoverReason

  constructor(share: string, resource: string, reason: HandoverReason) {
    super(`The resource "${resource}" of the share "${share}" must be released: ${reasonTexts[reason]}`, {
      code: 'RESOURCE_MOVED',
      retryable: true,
      hint: 'Finish or stop the work, then return. The next owner waits until the function ends.',
    })
    this.share = share
    this.resource = resource
    this.reason = reason
  }
}
