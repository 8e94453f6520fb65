export type { HoldfastPluginOptions, MountedDashboardOptions } from './options.js'
export { holdfastPlugin } from './plugin.js'
