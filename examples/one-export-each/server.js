// One server of the API: it answers what its parent asks, as it would answer requests.
import { Holdfast, LimitReachedError } from 'holdfast'

const holdfast = await Holdfast.open({ url: process.argv[2] })
const exporting = new Map()

async function start(user, wait) {
  try {
    // The request ends before the export does; so the permit is kept, and given back when the export is finished.
    exporting.set(user, await holdfast.limits.acquire(`export:${user}`, { max: 1, wait }))
    return '202 export started'
  } catch (error) {
    if (!(error instanceof LimitReachedError)) throw error
    return `409 an export is already running (${error.inUse} of ${error.max})`
  }
}

const actions = {
  export: (user) => start(user, 0),
  patiently: (user) => start(user, '5s'),
  async finish(user) {
    await exporting.get(user).release()
    return '200 export finished'
  },
}

process.on('message', async ({ id, user, what, close }) => {
  if (close) {
    await holdfast.close()
    process.exit()
  }
  process.send({ id, answer: await actions[what](user) })
})
process.on('disconnect', () => process.exit())
process.send('ready')
