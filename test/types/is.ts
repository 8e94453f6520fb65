/** Compiles only if the types are equal. `any` equals only `any`. */
export function is<Expected>() {
  return <Actual>(_: Actual, ..._same: Equal<Expected, Actual> extends true ? [] : ['the types differ']) => {}
}

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
