import type { FleetInstance } from '../observe/index.js'
import { refusedSettingFindings } from './connection-path.js'
import type { Check } from './doctor-context.js'
import { type Finding, finding, formatCount, formatList } from './finding.js'

export const fleet: Check = {
  name: 'the live instances',
  needsSchema: true,
  async run(context) {
    const instances = await context.aliveInstances()
    return [
      ...instances.flatMap(({ name, refusedSettings }) => refusedSettingFindings(refusedSettings, name)),
      mixedVersions(instances),
    ]
  },
}

function mixedVersions(instances: readonly FleetInstance[]): Finding | undefined {
  const versions = [...new Set(instances.map(({ version }) => version))].sort()
  if (versions.length < 2) return undefined
  const of = (wanted: string) => formatCount(instances.filter(({ version }) => version === wanted).length, 'instance')
  return finding({
    id: 'mixed-versions',
    severity: 'note',
    text: `The instances run ${formatCount(versions.length, 'version')} of Holdfast: ${formatList(versions.map((version) => `${of(version)} with ${version}`))}`,
    why: 'This is normal during a deployment. Different versions work together if they all support the schema.',
    facts: { versions: versions.join(', '), instances: instances.length },
    fix: {
      text: 'If no deployment is in progress, update the older instances. This command lists all instances and their versions:',
      commands: ['holdfast instance ls --json'],
    },
  })
}
