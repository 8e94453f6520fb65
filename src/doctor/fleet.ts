import { refusedSettingFindings } from './connection-path.js'
import type { Check } from './doctor-context.js'
import { type Finding, finding, formatCount, formatList } from './finding.js'

/** The instances that live. */
export const fleet: Check = {
  name: 'the living instances',
  needsSchema: true,
  async run(context): Promise<Finding[]> {
    const instances = await context.aliveInstances()
    const versions = [...new Set(instances.map(({ version }) => version))].sort()
    const of = (wanted: string) => formatCount(instances.filter(({ version }) => version === wanted).length, 'instance')
    return [
      ...instances.flatMap(({ id, refusedSettings }) => refusedSettingFindings(refusedSettings, id)),
      ...(versions.length < 2
        ? []
        : [
            finding({
              id: 'mixed-versions',
              severity: 'note',
              text: `The instances are of ${formatCount(versions.length, 'version')}: ${formatList(versions.map((version) => `${of(version)} of ${version}`))}`,
              why: 'As in the middle of a deployment. They work together as far as the schema allows.',
              facts: { versions: versions.join(', '), instances: instances.length },
              fix: {
                text: 'If no deployment is under way, deploy what was left behind. This shows who it is:',
                commands: ['holdfast instance ls --json'],
              },
            }),
          ]),
    ]
  },
}
