// The peers have a folder of their own, so that whoever works on Holdfast, or installs it, need not have them.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Progress } from '../measure.ts'

const folder = fileURLToPath(new URL('.', import.meta.url))

/** Installs them when they are not there, or not these. Answers with their versions. */
export function installPeers(progress: Progress) {
  const { dependencies }: { dependencies: Record<string, string> } = JSON.parse(
    readFileSync(`${folder}package.json`, 'utf8'),
  )
  const isThere = ([name, version]: [string, string]) => {
    const file = `${folder}node_modules/${name}/package.json`
    return existsSync(file) && JSON.parse(readFileSync(file, 'utf8')).version.replace(/^v/, '') === version
  }
  if (!Object.entries(dependencies).every(isThere)) {
    progress('installing the peers')
    const words = ['install', '--no-package-lock', '--ignore-scripts', '--no-audit', '--no-fund']
    execFileSync('npm', words, { cwd: folder, stdio: 'ignore' })
  }
  return dependencies
}
