// Next calls this function once, when the server starts. The worker and the schedule therefore start before the first request.
export async function register() {
  if (process.env.NEXT_RUNTIME !== 'nodejs') return
  const { shop, shutDown } = await import('./lib/shop')
  await shop()
  // Start Next with NEXT_MANUAL_SIG_HANDLE=true in its environment. Otherwise, Next ends the process before `shutDown` has finished.
  process.once('SIGTERM', () => void shutDown().then(() => process.exit()))
}
