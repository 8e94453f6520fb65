import { startEmbedded } from '../../embedded/index.js'
import { printMessage } from '../failure.js'
import { printDocument, write } from '../output.js'
import type { Settings } from '../settings.js'
import { onSignals, stopSignals } from '../signals.js'

/**
 * A PostgreSQL for development, until it is interrupted. Its address goes to stdout with its password, because it is
 * of use to nobody without: the password is random and the server only listens on the loopback.
 */
export async function dev(settings: Settings): Promise<void> {
  const port = settings.wholeNumber('port', 0, 65_535)
  const dataDir = settings.text('dataDir')
  // Listened for before the start: a signal in its middle must not leave a server behind.
  const interrupted = new Promise<void>((resolve) => {
    onSignals(stopSignals, () => resolve())
  })
  const server = await startEmbedded({ port, dataDir })
  // The server by itself does not keep this process running.
  const running = setInterval(() => {}, 2 ** 30)
  try {
    if (!printDocument<'dev'>(settings, { url: server.url, port: server.port, dataDir: server.dataDir }))
      write([server.url])
    printMessage(
      `PostgreSQL ${server.version} runs with its data in ${server.dataDir}${dataDir ? '' : ', for this run only'}.`,
    )
    printMessage('Stop it with Ctrl-C.')
    await interrupted
  } finally {
    clearInterval(running)
    await server.stop()
  }
}
