// PGlite is not a dependency, because it is as large as all of them together. .ci/pglite installs it.
declare module '@electric-sql/pglite/node-postgres' {
  export function createPgConfig(): object
}
