import { randomInt } from 'node:crypto'

/** The same walk again: HOLDFAST_SEED. */
export function seedOf(what: string): number {
  const seed = process.env.HOLDFAST_SEED ? Number(process.env.HOLDFAST_SEED) : randomInt(2 ** 31)
  console.log(`${what}: HOLDFAST_SEED=${seed}`)
  return seed
}

/** More of them, or fewer: HOLDFAST_SCHEDULES, a number that `usual` is to the usual total. */
export function countOf(usual: number, usualTotal = usual): number {
  const wanted = process.env.HOLDFAST_SCHEDULES
  return wanted ? Math.max(1, Math.round((Number(wanted) * usual) / usualTotal)) : usual
}
