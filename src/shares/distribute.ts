/**
 * Divides resources among members so that everybody who knows the same two lists comes to the same division, nobody has
 * more than the ceiling of resources / members, and few resources move when a member comes or goes.
 *
 * Rendezvous hashing with a capacity: each pair of member and resource has a random but fixed score. A resource goes
 * to the member that scores highest for it; a member that is offered more than it may have keeps those that score highest
 * with it, and the others go to their next best. The result is a stable matching: it does not depend on the order of
 * the lists, and a change disturbs only those who compete for what it touches.
 */
export function distribute(members: readonly string[], resources: readonly string[]): Map<string, string[]> {
  const seats = [...new Set(members)].sort().map((member) => ({ member, hash: hash(member), accepted: [] as Offer[] }))
  const capacity = Math.ceil(resources.length / Math.max(1, seats.length))
  for (const resource of seats.length > 0 ? new Set(resources) : []) {
    // The one that is turned away goes on to its next best seat, and may turn away another there.
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
  // In the order of the members' names, so that a tie ends the same way everywhere.
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

/** FNV-1a over UTF-16, of 32 bits, mixed so that names which differ in one letter have nothing in common. */
function hash(text: string): number {
  let state = 0x811c9dc5
  for (let at = 0; at < text.length; at++) state = Math.imul(state ^ text.charCodeAt(at), 0x01000193)
  return mix(state)
}

function score(member: number, resource: number): number {
  return mix(member ^ mix(resource + 0x9e3779b9))
}

/** The finaliser of MurmurHash3. */
function mix(given: number): number {
  let state = given
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b)
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35)
  return (state ^ (state >>> 16)) >>> 0
}
