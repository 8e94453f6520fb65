import { formatDuration } from '../../base/index.js'
import { type ObservedLease, Observer } from '../../observe/index.js'
import { Operator } from '../../operate/index.js'
import { agree } from '../confirm.js'
import { withDatabase } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'
import { targetOf, whoLeases } from '../who.js'

/** Takes a name from whoever has it by lease, or ends its hold. */
export async function leaseExpire(settings: Settings, name: string): Promise<void> {
  const { key, label } = targetOf(settings, name)
  await withDatabase(settings, async (database, schema) => {
    const [lease] = await new Observer(database, schema).leases({ key })
    if (lease) {
      say(consequence(label, lease))
      await agree(settings, 'expiring a lease', 'Expire this lease?')
    }
    const expired = lease !== undefined && (await new Operator(database, schema).expireLease(key))
    printDocument<'lease-expire'>(settings, { expired: expired ? lease : null })
    say(expired ? `Expired the lease on "${label}".` : `"${label}" is not leased: there is nothing to expire.`)
    if (!expired) throw new Exit(exitCode.conditionNotMet)
  })
}

function consequence(label: string, lease: ObservedLease): string {
  const { instance, fence, expiresInMs, held } = lease
  if (!held) {
    return [
      `This ends the hold on "${label}", which is taken for ${formatDuration(expiresInMs)} more:`,
      'the name is free at once, and the work that it kept from running again may run again.',
    ].join('\n')
  }
  return [
    `This takes "${label}" from instance ${instance} (${whoLeases(lease)}):`,
    'the name is free at once, and goes to whoever asks next.',
    `The holder is told, or hears of it at its next renewal. Guarded writes under its fence ${fence}`,
    'are refused from now on. Work that does not heed the loss may still be running then.',
  ].join('\n')
}
