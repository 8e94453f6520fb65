// Bundles src/ to JavaScript, one file per room, because Node.js needs most of a program's start to find and read files.
// A room imports other rooms, so a class exists once, whichever entry point a program imports.
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'

const src = fileURLToPath(new URL('../src', import.meta.url))

/** Paths in `src`, without `.ts`, of the modules that get a file at the same path. Other modules become a part of such a file. */
const entries = [
  ...readdirSync(src).map((name) => (name.endsWith('.ts') ? name.slice(0, -'.ts'.length) : `${name}/index`)),
  // Programs.
  'cli/bin',
  'demo/instance',
  'jobs/thread-main',
  // Reads SQL files that are next to it.
  'jobs/import/source',
  // Modules that the programs of this repository import.
  'cli/command',
  'cli/failure',
  'cli/program',
  'cli/work/exports',
  'dashboard/serialize',
  'embedded/ports',
  'embedded/user',
  'embedded/watchdog',
].filter((path) => existsSync(join(src, `${path}.ts`)))

const pathOf = (id: string) => relative(src, id).replace(/\.[jt]s$/, '')
const roomOf = (path: string) => path.split('/')[0]!

/** Bundles the package into the folder. */
export async function bundle(folder: string) {
  await build({
    input: Object.fromEntries(entries.map((path) => [path, join(src, `${path}.ts`)])),
    platform: 'neutral',
    tsconfig: false,
    transform: { target: 'es2022' },
    output: {
      dir: folder,
      minify: false,
      // The declarations contain the doc comments. Node.js would read them at each start.
      comments: { legal: true, annotation: true, jsdoc: false },
      minifyInternalExports: false,
      entryFileNames: '[name].js',
      // A chunk is a command that is imported when it runs, or a part that several files of a room share.
      chunkFileNames({ name, facadeModuleId, moduleIds }) {
        const id = facadeModuleId ?? moduleIds.at(-1)!
        return `${id.startsWith(src) ? pathOf(id) : name}.js`
      },
    },
    plugins: [
      {
        name: 'rooms',
        resolveId(specifier, importer) {
          if (importer === undefined || !importer.startsWith(src)) return undefined
          if (!specifier.startsWith('.')) return { id: specifier, external: true }
          const path = pathOf(resolve(dirname(importer), specifier))
          const isInside = roomOf(path) === roomOf(pathOf(importer))
          const target = isInside || entries.includes(path) ? path : `${roomOf(path)}/index`
          if (entries.includes(target)) return { id: join(src, `${target}.js`), external: true }
          return join(src, `${target}.ts`)
        },
        generateBundle(_, files) {
          for (const file of Object.values(files)) {
            if (file.type !== 'chunk') continue
            // Errors have the names of their classes.
            const renamed = /\b(\w+)\$\d+ = class\b/.exec(file.code)
            if (renamed) this.error(`Two classes in ${file.fileName} have the name ${renamed[1]}`)
            for (const id of file.moduleIds) {
              const isMoved = dirname(pathOf(id)) !== dirname(file.fileName)
              if (isMoved && this.getModuleInfo(id)?.code?.includes('import.meta.url'))
                this.error(`${pathOf(id)}.ts must be an entry, because it reads files that are next to it`)
            }
          }
        },
      },
    ],
  })
}
