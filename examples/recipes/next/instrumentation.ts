// Next calls this once, when the server starts: the worker and the schedule begin then, and not with the first request.
export async function register() {
  if (process.env.NEXT_RUNTIME !== 'nodejs') return
  const { shop, shutDown } = await import('./lib/shop')
  await shop()
  // Run Next with NEXT_MANUAL_SIG_HANDLE=true, set where the process is started: it would end the process before this is done.
  process.once('SIGTERM', () => void shutDown().then(() => process.exit()))
}
