export * from './job-search.js'
export * from './search.js'
