// PostgreSQL refuses to run as root. When we are root, as in most containers, the server runs as somebody who owns nothing.
import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { EmbeddedError } from './errors.js'

const run = promisify(execFile)

/** Who the server runs as; undefined means as ourselves. */
export type ServerUser = { name: string; uid: number; gid: number } | undefined

/** The owner of an existing data directory, or else the least powerful user that the system has. */
export async function chooseUser(dataDir: string | undefined): Promise<ServerUser> {
  if (process.getuid?.() !== 0) return undefined
  const existing = dataDir && (await stat(join(dataDir, 'PG_VERSION')).catch(() => undefined))
  if (existing && existing.uid !== 0) return { name: `user ${existing.uid}`, uid: existing.uid, gid: existing.gid }

  // `nobody` before `postgres`: the latter may own another server's data, and a superuser of SQL can run programs.
  for (const name of ['nobody', 'postgres']) {
    try {
      const [uid, gid] = await Promise.all(['-u', '-g'].map((flag) => run('id', [flag, name])))
      return { name, uid: Number(uid!.stdout), gid: Number(gid!.stdout) }
    } catch {
      // This system has no such user.
    }
  }
  throw new EmbeddedError(
    'EMBEDDED_NO_USER',
    'PostgreSQL cannot run as root, and this system has neither a user "nobody" nor "postgres"',
    'Create one of them, or run as an ordinary user.',
  )
}

/** Options for spawn(): as that user, away from a working directory that it may not enter, and with none of our secrets. */
export function spawnAs(user: ServerUser) {
  const env: NodeJS.ProcessEnv = { LC_ALL: 'C' }
  for (const name of ['PATH', 'TZ', 'LD_LIBRARY_PATH', 'DYLD_LIBRARY_PATH']) {
    if (process.env[name] !== undefined) env[name] = process.env[name]
  }
  // The numbers are signed here: macOS writes nobody's -2 as 4294967294.
  return { cwd: '/', env, ...(user && { uid: user.uid | 0, gid: user.gid | 0 }) }
}

/** Fails early, and clearly, when the server's user cannot come to a place that we can. */
export async function checkReachable(path: string, user: ServerUser): Promise<void> {
  if (!user) return
  try {
    await run('sh', ['-c', '[ -x "$1" ]', 'sh', path], spawnAs(user))
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== 1) {
      throw new EmbeddedError('EMBEDDED_NO_USER', `Cannot act as ${user.name}`, 'Run as an ordinary user.', cause)
    }
    throw new EmbeddedError(
      'EMBEDDED_UNREACHABLE',
      `PostgreSQL cannot run as root, so it runs as ${user.name}, who cannot reach ${path}`,
      'Choose a place whose parent directories everybody may enter (for temporary ones set TMPDIR).',
      cause,
    )
  }
}
