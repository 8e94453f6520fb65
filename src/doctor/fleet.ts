import { counted, type Finding, finding, listed } from './finding.js'
import { refusals } from './path.js'
import type { Check } from './patient.js'

/** The instances that live. */
export const fleet: Check = {
  name: 'the living instances',
  needsSchema: true,
  async look(patient): Promise<Finding[]> {
    const instances = await patient.instances()
    const versions = [...new Set(instances.map(({ version }) => version))].sort()
    const of = (wanted: string) => counted(instances.filter(({ version }) => version === wanted).length, 'instance')
    return [
      ...instances.flatMap(({ id, refusedSettings }) => refusals(refusedSettings, id)),
      ...(versions.length < 2
        ? []
        : [
            finding({
              id: 'mixed-versions',
              severity: 'note',
              seen: `The instances are of ${counted(versions.length, 'version')}: ${listed(versions.map((version) => `${of(version)} of ${version}`))}`,
              why: 'As in the middle of a deployment. They work together as far as the schema allows.',
              facts: { versions: versions.join(', '), instances: instances.length },
              mend: {
                what: 'If no deployment is under way, deploy what was left behind. This shows who it is:',
                commands: ['holdfast instance ls --json'],
              },
            }),
          ]),
    ]
  },
}
