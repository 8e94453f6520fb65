import { checkName } from '../../base/index.js'
import type { Jobs } from '../../index.js'
import { Observer } from '../../observe/index.js'
import { agree } from '../confirm.js'
import { withHoldfast } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printDocument } from '../output.js'
import { Progress } from '../progress.js'
import type { Settings } from '../settings.js'
import { counted } from './ls.js'
import { findQueue } from './pause.js'

/** Lets the buried jobs of a queue run again. */
export async function queueRedrive(settings: Settings, name: string): Promise<void> {
  checkName(name, 'queue')
  await withHoldfast(settings, async ({ jobs, namespace }, database, schema) => {
    const { queue, unknown } = await findQueue(new Observer(database, schema), namespace, name)
    const isWanted = queue !== undefined && queue.buried > 0
    if (isWanted) {
      say(
        `This lets ${counted(queue.buried)} buried ${queue.buried === 1 ? 'job' : 'jobs'} of "${name}" run again, with all attempts before them.`,
      )
      await agree(settings, 'bringing jobs back', 'Let them run again?')
    }
    const all = isWanted ? await redrive(settings, jobs, name, counted(queue.buried)) : 0
    printDocument<'queue-redrive'>(settings, { redriven: all })
    if (all > 0) return say(`${all} ${all === 1 ? 'job' : 'jobs'} of "${name}" may run again.`)
    if (isWanted) say(`No job of "${name}" could be brought back: others have their unique keys.`)
    else say(unknown ?? `No job of "${name}" is buried.`)
    throw new Exit(exitCode.conditionNotMet)
  })
}

async function redrive(settings: Settings, jobs: Jobs, name: string, buried: string | number): Promise<number> {
  using progress = new Progress(settings)
  let all = 0
  for await (const some of jobs.redriving(name)) {
    all += some
    progress.tell(`${all} of ${buried} jobs`)
  }
  return all
}
