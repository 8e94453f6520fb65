// Runs a process with callers of limits. The parent's messages contain the duration of each run.
import { loops } from '../measure.ts'
import { openCallers } from './callers.ts'

const [kind, url, each] = process.argv.slice(2) as [string, string, string]
const callers = await openCallers(kind, url)
process.on('message', async ({ ms }: { ms: number }) => process.send?.(await loops(Number(each), ms, callers.once)))
process.on('disconnect', () => callers.close())
process.send?.({})
