// Re-exports the server's types of requests and responses. The other files of the dashboard import these types from
// this file.
export type * from '../src/dashboard/wire.js'
