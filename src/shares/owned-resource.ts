import { type HeldName, HeldWork } from '../postgres/index.js'

/**
 * A resource that this instance has for itself, as the function that works on it is told.
 *
 * @example
 * await holdfast.shares.each('cities', cities, async (city, { signal, fence }) => draw(city, { signal, fence }))
 */
export class OwnedResource extends HeldWork {
  readonly resource: string
  /** Larger than that of whoever had the resource before. */
  readonly fence: number

  /** @internal */
  constructor(resource: string, heldName: HeldName, callerSignal?: AbortSignal) {
    super(heldName, callerSignal)
    this.resource = resource
    this.fence = heldName.fence
  }
}

/**
 * The name that whoever has a resource holds: `share/<share>/<resource>`. A slash in the name of the share is written
 * `%2F`, so that the resources of two shares never have one name.
 */
export function resourceName(share: string, resource: string): string {
  return `share/${share.replaceAll('%', '%25').replaceAll('/', '%2F')}/${resource}`
}
