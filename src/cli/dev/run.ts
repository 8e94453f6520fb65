import { type EmbeddedOptions, type EmbeddedServer, startEmbedded } from '../../embedded/index.js'
import { printMessage } from '../failure.js'
import { printDocument, write } from '../output.js'
import { Progress } from '../progress.js'
import type { Settings } from '../settings.js'
import { onSignals, stopSignals } from '../signals.js'

/**
 * Runs a PostgreSQL server for development until a signal arrives. Prints the URL including the password, because the
 * URL is useless without the password. This is safe because the password is random and the server listens only on
 * 127.0.0.1.
 */
export async function dev(settings: Settings): Promise<void> {
  const port = settings.wholeNumber('port', 0, 65_535)
  const dataDir = settings.text('dataDir')
  // Listens for signals before the server starts, so that a signal during the start does not leave the server running.
  const interrupted = new Promise<void>((resolve) => {
    onSignals(stopSignals, () => resolve())
  })
  const server = await start(settings, { port, dataDir })
  // The server is a separate process and does not keep this process running.
  const running = setInterval(() => {}, 2 ** 30)
  try {
    if (!printDocument<'dev'>(settings, { url: server.url, port: server.port, dataDir: server.dataDir }))
      write([server.url])
    printMessage(
      `PostgreSQL ${server.version} is running with its data in ${server.dataDir}${dataDir ? '' : ', which will be deleted on exit'}.`,
    )
    printMessage('Stop it with Ctrl-C.')
    await interrupted
  } finally {
    clearInterval(running)
    await server.stop()
  }
}

/** Starts the server. This takes seconds if the data directory is new. */
async function start(settings: Settings, options: EmbeddedOptions): Promise<EmbeddedServer> {
  using progress = new Progress(settings)
  progress.show('starting PostgreSQL …')
  return await startEmbedded(options)
}
