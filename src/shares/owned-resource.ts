import { type HeldName, HeldWork } from '../postgres/index.js'

/**
 * Resource that this instance holds exclusively. Passed as the second argument to the function that processes the
 * resource.
 *
 * @example
 * await holdfast.shares.each('cities', cities, async (city, { signal, fence }) => draw(city, { signal, fence }))
 */
export class OwnedResource extends HeldWork {
  readonly resource: string
  /** Fencing token, larger than the token of every earlier holder of the resource. */
  readonly fence: number

  /** @internal */
  constructor(resource: string, heldName: HeldName, callerSignal?: AbortSignal) {
    super(heldName, callerSignal)
    this.resource = resource
    this.fence = heldName.fence
  }
}

/**
 * Returns a resource's lock name. Escapes slashes in the share's name, so that two shares' lock names cannot collide.
 */
export function resourceName(share: string, resource: string): string {
  return `share/${share.replaceAll('%', '%25').replaceAll('/', '%2F')}/${resource}`
}
