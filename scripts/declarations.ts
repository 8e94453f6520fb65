// Keeps declarations that no entry point of the package reaches out of the package. The programs of this repository import
// some of them, so they stay in dist.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

/** Writes the folder's `.npmignore`, which lists the unreachable declarations. */
export function ignoreUnreachableDeclarations(folder: string) {
  const { exports }: { exports: Record<string, { types?: string }> } = JSON.parse(readFileSync('package.json', 'utf8'))
  const reachable = new Set<string>()
  for (const { types } of Object.values(exports)) if (types) collect(resolve(types), reachable)
  const all = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.d.ts'))
  const unreachable = all.filter((name) => !reachable.has(resolve(folder, name)))
  writeFileSync(join(folder, '.npmignore'), unreachable.map((name) => `/${name}\n`).join(''))
}

/** Adds the file and all declarations that it imports. */
function collect(file: string, found: Set<string>) {
  if (found.has(file)) return
  found.add(file)
  for (const [, path] of readFileSync(file, 'utf8').matchAll(/\b(?:from|import) ?\(?['"](\.[^'"]+)\.js['"]/g)) {
    collect(join(dirname(file), `${path}.d.ts`), found)
  }
}
