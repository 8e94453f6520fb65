// The server's types of requests and responses, for all files of the dashboard.
export type * from '../src/dashboard/wire.js'
