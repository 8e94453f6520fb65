// Installs the peers in their own folder, so that developers and users of Holdfast do not have to install them.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Progress } from '../measure.ts'

const folder = fileURLToPath(new URL('.', import.meta.url))

/** Installs the peers if a package is missing or has another version. Returns their versions. */
export function installPeers(progress: Progress) {
  const { dependencies }: { dependencies: Record<string, string> } = JSON.parse(
    readFileSync(`${folder}package.json`, 'utf8'),
  )
  const isInstalled = ([name, version]: [string, string]) => {
    const file = `${folder}node_modules/${name}/package.json`
    return existsSync(file) && JSON.parse(readFileSync(file, 'utf8')).version.replace(/^v/, '') === version
  }
  if (!Object.entries(dependencies).every(isInstalled)) {
    progress('installing the peers')
    const args = ['install', '--no-package-lock', '--ignore-scripts', '--no-audit', '--no-fund']
    execFileSync('npm', args, { cwd: folder, stdio: 'ignore' })
  }
  return dependencies
}
