// The server's request and response types, for all of the dashboard's files.
export type * from '../src/dashboard/wire.js'
