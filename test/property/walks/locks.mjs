/** One lock, on one name or several, shared or exclusive, waited for or not. */
export async function step({ holdfast, believe, keep, impatience }, walk, random) {
  const { schedule, names } = walk
  const { options, forget } = impatience(random)
  options.mode = random.chance(0.3) ? 'shared' : 'exclusive'
  const asked = random.chance(0.2) ? random.some(names, 1 + random.below(names.length)) : random.pick(names)
  try {
    const tries = random.chance(0.2)
    const lock = await (tries ? holdfast.locks.tryAcquire(asked, options) : holdfast.locks.acquire(asked, options))
    if (!lock) return
    const { names: held, mode } = lock
    await believe(lock, { schedule, names: held, mode }, random, () => keep(walk, random))
    await lock.release()
    if (random.chance(0.05)) await lock.release()
  } finally {
    forget()
  }
}
