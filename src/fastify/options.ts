import { closeOptionRules, type Duration, objectWith, readOptions, UsageError } from '../base/index.js'
import type { DashboardOptions } from '../dashboard/index.js'
import type { HoldfastOptions } from '../index.js'

export interface MountedDashboardOptions extends DashboardOptions {
  /** Path under which the dashboard is served, such as `/admin/holdfast`. */
  readonly prefix: string
}

export interface HoldfastPluginOptions extends HoldfastOptions {
  /** Maximum time that `app.close()` waits for running work. The default is `30s`. */
  drainWithin?: Duration | undefined
  /** Serves the dashboard. By default, the dashboard reads the `url` or `pool`, and the `schema`, of the instance. */
  dashboard?: MountedDashboardOptions | undefined
  /** Path of the health checks. With `/health`, the routes are `/health/live` and `/health/ready`. */
  health?: string | undefined
}

const path = {
  expected: 'a path that starts with a slash and does not end with one',
  read: (given: unknown) => (typeof given === 'string' && /^\/(.*[^/])$/.test(given) ? given : undefined),
}
const rules = {
  drainWithin: closeOptionRules.within,
  dashboard: objectWith<MountedDashboardOptions>('an object whose prefix is the path of the dashboard', 'prefix'),
  health: path,
}

/** Separates the plugin's options from the instance's options, which `Holdfast.open` checks. */
export function readSettings(options: HoldfastPluginOptions) {
  const { drainWithin, dashboard, health, ...instance } = options
  const read = readOptions('holdfastPlugin', { drainWithin, dashboard, health }, rules)
  return {
    drainWithin: read.drainWithin,
    health: read.health,
    dashboard: read.dashboard && readDashboard(read.dashboard, instance),
    instance,
  }
}

/** Returns the options for `dashboard` and the path. */
function readDashboard({ prefix, ...given }: MountedDashboardOptions, { url, pool, schema }: HoldfastOptions) {
  readOptions('dashboard', { prefix }, { prefix: path })
  if ((given.url ?? given.pool ?? given.databases) !== undefined) return { prefix, options: { schema, ...given } }
  if (url === undefined && pool === undefined) {
    throw new UsageError(
      'Expected the dashboard to have a url or a pool, because the dashboard cannot use the `sql` option',
      'For example: dashboard: { prefix: "/admin/holdfast", url: process.env.DATABASE_URL }',
    )
  }
  return { prefix, options: { schema, ...given, url, pool } }
}
