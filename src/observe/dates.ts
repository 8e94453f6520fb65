/** A time as SQL returns it, in ms since 1970. */
export function dateOf(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}

/** An age or a time left, which two clocks may have read: never less than nothing. */
export function msOf(ms: number | null): number | null {
  return ms === null ? null : Math.max(0, Math.round(ms))
}

/** A row as SQL returns it: a date is a number of ms since 1970. */
export type RawRow<Row> = {
  readonly [Name in keyof Row]: Row[Name] extends Date
    ? number
    : Row[Name] extends Date | null
      ? number | null
      : Row[Name]
}

type DateOf<Row> = { [Name in keyof Row]: Row[Name] extends Date | null ? Name : never }[keyof Row]

/** Makes dates of the columns `dates`, and whole numbers of ages and times left, whose names end with `Ms`. */
export function readRow<Row extends object>(raw: RawRow<Row>, ...dates: readonly DateOf<Row>[]): Row {
  const isDate = new Set<unknown>(dates)
  const read = Object.entries(raw).map(([name, value]) => {
    if (typeof value !== 'number') return [name, value]
    if (isDate.has(name)) return [name, new Date(value)]
    return [name, name.endsWith('Ms') ? msOf(value) : value]
  })
  return Object.fromEntries(read) as Row
}
