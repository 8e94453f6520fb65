export { Conductor, type DemoOutcome, type Losses } from './conductor.js'
export { type Ground, openGround } from './ground.js'
export type { DemoEvent, Happening, Narrator } from './narrator.js'
export type { Verdict } from './proof.js'
