export { Samples } from './samples.js'
