import type { FleetInstance } from '../observe/index.js'
import { refusedSettingFindings } from './connection-path.js'
import type { Check } from './doctor-context.js'
import { type Finding, finding, formatCount, formatList } from './finding.js'

export const fleet: Check = {
  name: 'the instances',
  isOfFleet: true,
  needsSchema: true,
  async run(context) {
    const all = await context.instances()
    const instances = all.filter(({ alive }) => alive)
    return [
      lostInstances(all),
      ...instances.flatMap(({ name, refusedSettings }) => refusedSettingFindings(refusedSettings, name)),
      mixedVersions(instances),
    ]
  },
}

function lostInstances(instances: readonly FleetInstance[]): Finding | undefined {
  const lost = instances.filter(({ alive }) => !alive)
  if (lost.length === 0) return undefined
  const names = formatList(lost.map(({ name }) => name))
  return finding({
    id: 'instances-lost',
    // A process that is killed now and then is normal. The loss of half of the fleet is not.
    severity: lost.length * 2 >= instances.length ? 'risky' : 'note',
    text: `${lost.length} of ${formatCount(instances.length, 'instance')} ${lost.length === 1 ? 'is' : 'are'} lost: ${names}`,
    why: 'The heartbeat of a lost instance stopped without a clean shutdown: its process was killed, or its database connection was lost. Other instances take over its work.',
    facts: { lost: lost.length, instances: instances.length },
    fix: {
      text: 'Find out why the processes ended, for example in their logs. Close Holdfast when a process stops. This command lists all instances:',
      commands: ['holdfast instance ls'],
    },
  })
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
