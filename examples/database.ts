// Where the examples find PostgreSQL: DATABASE_URL, or one of their own.
import { startEmbedded } from 'holdfast/embedded'

export async function withDatabase(work: (url: string) => Promise<void>) {
  if (process.env.DATABASE_URL) return work(process.env.DATABASE_URL)
  const server = await startEmbedded()
  try {
    return await work(await server.createDatabase('example'))
  } finally {
    await server.stop()
  }
}
