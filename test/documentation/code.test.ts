// Compiles every TypeScript block of the documentation against the package. Names that a page does not define (`files`, `load`) have the type
// any. The types of Holdfast must be correct.
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))

interface Block {
  readonly page: string
  readonly line: number
  readonly code: string
}

async function pages(): Promise<string[]> {
  const all = await readdir(join(root, 'docs'), { recursive: true })
  const rooms = await readdir(join(root, 'src'))
  const found = [
    'README.md',
    'examples/README.md',
    ...all.filter((name) => !name.includes('node_modules')).map((name) => `docs/${name}`),
    ...rooms.map((room) => `src/${room}/README.md`),
  ]
  return found.filter((name) => name.endsWith('.md'))
}

async function blocksOf(page: string): Promise<Block[]> {
  const text = await readFile(join(root, page), 'utf8').catch(() => '')
  return [...text.matchAll(/(For example[^\n]*\n\n)?^```ts\n(.*?)^```/gms)]
    .filter(([, example]) => example !== undefined || !page.startsWith('docs/reference/api/'))
    .map(({ 2: code, index }) => ({ page, line: text.slice(0, index).split('\n').length + 1, code: code! }))
}

/** Modules of the reader, and the libraries that the pages replace. Their imports are `any`. */
const modules = `declare module '*.js'
declare module 'bullmq'
declare module 'redlock' {
  const Redlock: any
  type Redlock = any
  export default Redlock
}
`

const isImplicitAny = new Set(['7006', '7031'])

/** Declarations for every block. */
const declarations = `import type { Holdfast, Lock } from 'holdfast'
import type pg from 'pg'
import type { z as zod } from 'zod'
declare global {
  const z: typeof zod
  const holdfast: Holdfast
  const lock: Lock
  const client: pg.PoolClient
  const pool: pg.Pool
}
`

/** Builds a module: the imports, declarations of unknown names, and the rest in a function, so that it may await and return. */
function moduleOf({ code }: Block, unknown: ReadonlySet<string>, ours: ReadonlyMap<string, string>): string {
  const whole = code.replaceAll(/\(?…\)?|\(\.\.\.\)/g, (gap) => (gap.startsWith('(') ? '()' : ''))
  const imports = [...whole.matchAll(/^import [^']*'[^']+'.*\n/gm)].map(([line]) => line)
  const rest = imports.reduce((text, line) => text.replace(line, ''), whole)
  const declared = [...unknown].map((name) =>
    ours.has(name)
      ? `import { ${name} } from '${ours.get(name)}'\n`
      : `declare const ${name}: any\ntype ${name} = any\n`,
  )
  const body = /^(export|declare) /m.test(rest) ? rest : `async function page() {\n${rest}\n}\nvoid page\n`
  return [...imports, ...declared, body, 'export {}\n'].join('')
}

test('every TypeScript block in the documentation compiles', { timeout: 240_000 }, async () => {
  const blocks = (await Promise.all((await pages()).map(blocksOf))).flat()
  expect(blocks.length).toBeGreaterThan(100)
  // A registered transaction changes the type of `tx` in the whole program.
  const registers = ({ code }: Block) => code.includes('interface Register')
  const programs = [blocks.filter((block) => !registers(block)), ...blocks.filter(registers).map((block) => [block])]
  const wrong = await Promise.all(programs.map(errorsOf))
  expect(wrong.flat().join('\n\n')).toBe('')
})

/** Compiles the blocks as one program, and returns the errors. */
async function errorsOf(blocks: readonly Block[]): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-documents-'))
  try {
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
    await writeFile(join(folder, 'declarations.d.ts'), declarations)
    await writeFile(join(folder, 'modules.d.ts'), modules)
    const compilerOptions = {
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      target: 'ES2022',
      lib: ['ES2024', 'ESNext.Disposable'],
      module: 'NodeNext',
      types: ['node'],
      experimentalDecorators: true,
      paths: { holdfast: [join(root, 'dist/index.d.ts')], 'holdfast/*': [join(root, 'dist/*/index.d.ts')] },
    }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts', '*.mts'] }))
    const ours = new Map<string, string>()
    for (const entry of ['nestjs', 'fastify', 'testing', 'telemetry', 'http', 'embedded', 'dashboard', '.']) {
      const declarations = await readFile(join(root, 'dist', entry, 'index.d.ts'), 'utf8')
      const exported = /^export (?:type )?\{([^}]*)\}|^export (?:declare )?\w+ (\w+)/gm
      for (const [, many, one] of declarations.matchAll(exported)) {
        for (const name of (many ?? one!).split(/[\s,]+/)) ours.set(name, join('holdfast', entry))
      }
    }
    const unknown = blocks.map(() => new Set<string>())
    /** Whether a parameter belongs to a callback that the page passes to a function of the reader, whose type is `any`. */
    const isForReader = (at: string, row: string, column: string) => {
      const lines = moduleOf(blocks[Number(at)]!, unknown[Number(at)]!, ours).split('\n')
      const before = lines[Number(row) - 1]!.slice(0, Number(column) - 1)
      return [...unknown[Number(at)]!].some((name) => new RegExp(`\\b${name}\\b.*\\(`).test(before))
    }
    let wrong: string[] = []
    // Each round declares the unknown names that the previous round found.
    for (let round = 0; round < 4; round++) {
      await Promise.all(
        blocks.map((block, at) => writeFile(join(folder, `block${at}.mts`), moduleOf(block, unknown[at]!, ours))),
      )
      const { stdout } = await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder], {
        maxBuffer: 2 ** 26,
        cwd: folder,
      }).catch((error: { stdout: string }) => error)
      const knownBefore = unknown.reduce((sum, { size }) => sum + size, 0)
      wrong = []
      for (const line of stdout.split('\n')) {
        const error = /^block(\d+)\.mts\((\d+),(\d+)\): error TS(\d+): (.*)$/.exec(line)
        if (!error) continue
        const [, at, row, column, code, message] = error as unknown as [string, string, string, string, string, string]
        const { page, line: where, code: text } = blocks[Number(at)]!
        const name = /(?:Cannot find (?:name|namespace)|shorthand property) '([\w$]+)'/.exec(message)
        // The page does not define the name, or imports it in another block.
        if (name) unknown[Number(at)]!.add(name[1]!)
        else if (!(isImplicitAny.has(code) && isForReader(at, row, column))) {
          wrong.push(`${relative('.', page)}:${where}: ${message}\n${text}`)
        }
      }
      if (unknown.reduce((sum, { size }) => sum + size, 0) === knownBefore) break
    }
    return wrong
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
