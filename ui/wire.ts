// Types of requests and responses, from the server. All other files in this directory import these types from here.
export type * from '../src/dashboard/wire.js'
