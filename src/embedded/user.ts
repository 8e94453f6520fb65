// PostgreSQL refuses to run as root. If we are root, as in most containers, the server runs as an unprivileged user.
import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { EmbeddedError } from './errors.js'

const run = promisify(execFile)

/** The user that runs the server. Undefined means our own user. */
export type ServerUser = { name: string; uid: number; gid: number } | undefined

/** Returns the owner of an existing data directory, or else the system's least privileged user. */
export async function chooseUser(dataDir: string | undefined): Promise<ServerUser> {
  if (process.getuid?.() !== 0) return undefined
  const existing = dataDir && (await stat(join(dataDir, 'PG_VERSION')).catch(() => undefined))
  if (existing && existing.uid !== 0) return { name: `user ${existing.uid}`, uid: existing.uid, gid: existing.gid }

  // Tries `nobody` before `postgres`, because `postgres` may own another server's data, and an SQL superuser can run
  // programs.
  for (const name of ['nobody', 'postgres']) {
    try {
      const [uid, gid] = await Promise.all(['-u', '-g'].map((flag) => run('id', [flag, name])))
      return { name, uid: Number(uid!.stdout), gid: Number(gid!.stdout) }
    } catch {
      // Tries the next name, because the system has no user with this name.
    }
  }
  throw new EmbeddedError(
    'EMBEDDED_NO_USER',
    'PostgreSQL cannot run as root, and this system has neither a user "nobody" nor a user "postgres"',
    'Create one of these users, or start this process as an ordinary user.',
  )
}

/** Options for spawn(): the user, a working directory that every user may enter, and an environment without secrets. */
export function spawnAs(user: ServerUser) {
  const env: NodeJS.ProcessEnv = { LC_ALL: 'C' }
  for (const name of ['PATH', 'TZ', 'LD_LIBRARY_PATH', 'DYLD_LIBRARY_PATH']) {
    if (process.env[name] !== undefined) env[name] = process.env[name]
  }
  // Converts the ids to signed numbers, because macOS shows the id -2 of `nobody` as 4294967294.
  return { cwd: '/', env, ...(user && { uid: user.uid | 0, gid: user.gid | 0 }) }
}

/** Throws if the server's user has no access to a path. */
export async function checkReachable(path: string, user: ServerUser): Promise<void> {
  if (!user) return
  try {
    await run('sh', ['-c', '[ -x "$1" ]', 'sh', path], spawnAs(user))
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== 1) {
      throw new EmbeddedError(
        'EMBEDDED_NO_USER',
        `Cannot run programs as ${user.name}`,
        'Start this process as an ordinary user.',
        cause,
      )
    }
    throw new EmbeddedError(
      'EMBEDDED_UNREACHABLE',
      `PostgreSQL cannot run as root, so it runs as ${user.name}, which has no access to ${path}`,
      'Choose a path whose parent directories are accessible to all users. Temporary directories are created in TMPDIR.',
      cause,
    )
  }
}
