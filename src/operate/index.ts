export * from './operator.js'
