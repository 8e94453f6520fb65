// Provides an example's database: the database in DATABASE_URL, or a new embedded server.
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
