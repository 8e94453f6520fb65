// What goes over the wire, as the server's own types tell it. Everything else in this directory takes these types from here.
export type * from '../src/dashboard/wire.js'
