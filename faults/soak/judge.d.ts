export interface Verdict {
  readonly name: string
  readonly first: number
  readonly last: number
  readonly slope: number
  readonly gained: number
  readonly bound: number
  readonly isOk: boolean
}

export function judge(
  name: string,
  samples: readonly (readonly number[])[],
  kind: { readonly margin: number; readonly fluctuates?: boolean },
): Verdict
