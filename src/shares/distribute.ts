/**
 * Divides resources among members. The same lists always produce the same result. No member gets more than the ceiling
 * of resources / members, and few resources move when a member joins or leaves.
 *
 * Uses rendezvous hashing with a capacity. Each pair of member and resource has a fixed pseudo-random score. Each
 * resource is assigned to the member with the highest score. A member that exceeds its capacity keeps the resources
 * with the highest scores. Every other resource is offered to the member with the next highest score. The result is a
 * stable matching, which does not depend on the order of the lists.
 */
export function distribute(members: readonly string[], resources: readonly string[]): Map<string, string[]> {
  const seats = [...new Set(members)].sort().map((member) => ({ member, hash: hash(member), accepted: [] as Offer[] }))
  const capacity = Math.ceil(resources.length / Math.max(1, seats.length))
  for (const resource of seats.length > 0 ? new Set(resources) : []) {
    // A rejected offer moves to the member with the next highest score, where it may displace another offer.
    let rejected: Offer | undefined = { resource, hash: hash(resource), refusedBy: new Set() }
    while (rejected) {
      const seat = bestSeat(rejected, seats)
      seat.accepted.push(rejected)
      rejected = seat.accepted.length > capacity ? removeWeakest(seat) : undefined
      rejected?.refusedBy.add(seat)
    }
  }
  return new Map(seats.map(({ member, accepted }) => [member, accepted.map(({ resource }) => resource).sort()]))
}

interface Seat {
  readonly member: string
  readonly hash: number
  readonly accepted: Offer[]
}

interface Offer {
  readonly resource: string
  readonly hash: number
  readonly refusedBy: Set<Seat>
}

function bestSeat(offer: Offer, seats: readonly Seat[]): Seat {
  let best: Seat | undefined
  let bestScore = -1
  // Sorted by member name, so that every instance resolves ties in the same way.
  for (const seat of seats) {
    if (offer.refusedBy.has(seat)) continue
    const points = score(seat.hash, offer.hash)
    if (points > bestScore) {
      best = seat
      bestScore = points
    }
  }
  return best!
}

function removeWeakest(seat: Seat): Offer {
  const { accepted } = seat
  let weakestAt = 0
  for (let at = 1; at < accepted.length; at++) if (isWeaker(accepted[at]!, accepted[weakestAt]!, seat)) weakestAt = at
  return accepted.splice(weakestAt, 1)[0]!
}

function isWeaker(one: Offer, other: Offer, seat: Seat): boolean {
  const [a, b] = [score(seat.hash, one.hash), score(seat.hash, other.hash)]
  return a === b ? one.resource > other.resource : a < b
}

/**
 * Returns a 32-bit FNV-1a hash over UTF-16 code units. The hash is mixed, so that similar names have unrelated hashes.
 */
function hash(text: string): number {
  let state = 0x811c9dc5
  for (let at = 0; at < text.length; at++) state = Math.imul(state ^ text.charCodeAt(at), 0x01000193)
  return mix(state)
}

function score(member: number, resource: number): number {
  return mix(member ^ mix(resource + 0x9e3779b9))
}

/** The MurmurHash3 finalizer. */
function mix(given: number): number {
  let state = given
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b)
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35)
  return (state ^ (state >>> 16)) >>> 0
}
