export interface Random {
  /** From 0 up to, not including, 1. */
  fraction(): number
  below(limit: number): number
  chance(probability: number): boolean
  pick<T>(items: readonly T[]): T
  some<T>(items: readonly T[], count: number): T[]
}
export function randomFrom(seed: number): Random
