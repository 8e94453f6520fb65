import { type ObservedLock, Observer, whoIs } from '../../observe/index.js'
import { Operator } from '../../operate/index.js'
import { agree } from '../confirm.js'
import { withDatabase } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'
import { targetOf } from '../who.js'

/** The hard way: ends the sessions that hold the name, and with each of them all else that it holds. */
export async function lockBreak(settings: Settings, name: string): Promise<void> {
  const { key, label } = targetOf(settings, name)
  await withDatabase(settings, async (database, schema) => {
    const all = (await new Observer(database, schema).locks()).filter(({ granted }) => granted)
    const holders = all.filter((lock) => lock.key === key)
    if (holders.length === 0) {
      printDocument<'lock-break'>(settings, { ended: [] })
      say(`"${label}" is free: there is nothing to break.`)
      throw new Exit(exitCode.conditionNotMet)
    }
    say(consequence(label, holders, all))
    await agree(settings, 'breaking a lock', holders.length === 1 ? 'End this session?' : 'End these sessions?')
    const operator = new Operator(database, schema)
    const ended: ObservedLock[] = []
    for (const holder of holders) {
      const did = await operator.endSession(holder.pid!, key)
      if (did) ended.push(holder)
      say(did ? `Ended session ${holder.pid}.` : `Session ${holder.pid} has let go of "${label}" by itself.`)
    }
    printDocument<'lock-break'>(settings, { ended })
  })
}

function consequence(label: string, holders: readonly ObservedLock[], all: readonly ObservedLock[]): string {
  const lines = holders.map((holder) => {
    const others = all.filter(({ pid, key }) => pid === holder.pid && key !== holder.key).length
    const instance = holder.instance === null ? '' : ` of instance ${holder.instance}`
    const session = `session ${holder.pid}${instance}`
    const owner = holder.instance === null ? holder.application || holder.user || 'unknown' : whoIs(holder)
    const besides = others === 0 ? 'and no other name' : `and ${others} other ${others === 1 ? 'name' : 'names'}`
    return `  ${session} (${owner}),\n  which holds "${label}" ${besides}`
  })
  return [
    holders.length === 1 ? 'This ends a session:' : `This ends ${holders.length} sessions:`,
    ...lines,
    'All that it holds is lost at once, and goes to whoever waits.',
    'Work that does not heed the loss may still be running then.',
    'The mild way is `holdfast lock release`, which asks the holder to stop.',
  ].join('\n')
}
