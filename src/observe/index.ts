export * from './graph.js'
export * from './observer.js'
