// Names of views and acts in requests: NAME, or DATABASE:NAME if the dashboard shows several databases.

/** A name cannot contain a colon, a slash or a question mark, which separate the parts of a request. */
export function isDatabaseName(name: string): boolean {
  return /^[A-Za-z0-9][\w.-]{0,39}$/.test(name)
}

/** Splits `DATABASE:NAME?params`. The database is null if the text contains none. */
export function splitSpec(text: string): { readonly database: string | null; readonly rest: string } {
  const [, database, rest] = /^([^:?]*):(.*)$/s.exec(text) ?? []
  return database === undefined ? { database: null, rest: text } : { database, rest: rest! }
}
