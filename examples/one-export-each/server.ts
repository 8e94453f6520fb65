// One server of the API. To keep the example short, the requests are messages from the parent process instead of HTTP requests.
import { type Duration, Holdfast, LimitReachedError, type Permit } from 'holdfast'

const holdfast = await Holdfast.open({ url: process.argv[2] })
const exporting = new Map<string, Permit>()

async function start(user: string, wait: Duration) {
  try {
    // The request ends before the export. The server therefore keeps the permit and releases it when the export is finished.
    exporting.set(user, await holdfast.limits.acquire(`export:${user}`, { max: 1, wait }))
    return '202 export started'
  } catch (error) {
    if (!(error instanceof LimitReachedError)) throw error
    return `429 an export is already running (${error.inUse} of ${error.max})`
  }
}

const actions = {
  export: (user: string) => start(user, 0),
  patiently: (user: string) => start(user, '5s'),
  async finish(user: string) {
    await exporting.get(user)?.release()
    return '200 export finished'
  },
}

export type Action = keyof typeof actions

export interface Request {
  id: number
  user: string
  what: Action
  close?: boolean
}

export interface Answer {
  id: number
  answer: string
}

process.on('message', async ({ id, user, what, close }: Request) => {
  if (close) {
    await holdfast.close()
    process.exit()
  }
  process.send?.({ id, answer: await actions[what](user) })
})
process.on('disconnect', () => process.exit())
process.send?.('ready')
