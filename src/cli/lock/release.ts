import { Observer, whoIs } from '../../observe/index.js'
import { Operator } from '../../operate/index.js'
import { withDatabase } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'
import { targetOf } from '../who.js'

/** The mild way: the holder is asked, and decides itself when its work can stop. */
export async function lockRelease(settings: Settings, name: string): Promise<void> {
  const { key, label } = targetOf(settings, name)
  await withDatabase(settings, async (database, schema) => {
    const holders = (await new Observer(database, schema).locks({ key })).filter(({ granted }) => granted)
    const ours = holders.filter(({ instance }) => instance !== null)
    if (ours.length > 0) await new Operator(database, schema).requestRelease(key)
    printDocument<'lock-release'>(settings, { asked: ours })
    for (const holder of ours) say(`Asked ${whoIs(holder, holder.pid)} to release "${label}".`)
    for (const holder of holders) {
      if (holder.instance !== null) continue
      say(
        `${whoIs(holder, holder.pid)} holds "${label}" without Holdfast and cannot be asked; \`holdfast lock break\` ends it.`,
      )
    }
    if (holders.length === 0) say(`"${label}" is free: there is nobody to ask.`)
    if (ours.length === 0) throw new Exit(exitCode.conditionNotMet)
  })
}
