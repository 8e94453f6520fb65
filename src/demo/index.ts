export { Conductor } from './conductor.js'
export { type Ground, openGround } from './ground.js'
export type { DemoEvent, Happening, Narrator } from './narrator.js'
