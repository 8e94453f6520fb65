// Writes docs/reference/api: one page for each room and each further entry point of the package, from the published
// declarations. The pages also reveal changes to the public interface, because every such change alters these pages.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CompilerState, Extractor, ExtractorConfig, type ExtractorMessage } from '@microsoft/api-extractor'

const root = fileURLToPath(new URL('../..', import.meta.url))
const { exports }: { exports: Record<string, { types?: string }> } = JSON.parse(
  readFileSync(join(root, 'package.json'), 'utf8'),
)
const entries = Object.entries(exports).flatMap(([path, { types }]) =>
  types ? [{ path, name: path === '.' ? 'holdfast' : `holdfast/${path.slice(2)}`, types: join(root, types) }] : [],
)

/** Order of the pages. The pages that users need first come first. */
const order = ['holdfast', 'locks', 'leases', 'elections', 'limits', 'once', 'shares', 'schedules', 'jobs']

const common = ['base', 'cron', 'postgres', 'observe', 'doctor']
/** Returns the page for a declaration in the main entry point, by the declaration's room. */
export const pageOf = (room: string) => (common.includes(room) || room.endsWith('.d.ts') ? 'holdfast' : room)

const positionOf = (page: string) => (order.includes(page) ? order.indexOf(page) : order.length)

const intros: Record<string, string> = {
  holdfast: 'The class `Holdfast`, the types that several modules share, and the errors.',
}

/** Fields of API Extractor's description of a declaration that this file reads. */
interface Item {
  name: string
  kind: string
  canonicalReference: string
  fileUrlPath: string
  docComment?: string
  excerptTokens: { kind: string; text: string; canonicalReference?: string }[]
  members?: Item[]
}

interface Page {
  from: string
  items: Item[]
}

/** Maps each declaration to its page. */
type PageIndex = Map<string, string>

/** Returns each page's name and text. */
export function api(): [name: string, text: string][] {
  const pages = new Map<string, Page>()
  for (const { path, name, items } of readDeclarations()) {
    for (const item of items) {
      const room = item.fileUrlPath.split('/')[1] ?? ''
      const page = path === '.' ? pageOf(room) : path.slice(2)
      if (!pages.has(page)) pages.set(page, { from: name, items: [] })
      pages.get(page)!.items.push(item)
    }
  }
  const sorted = [...pages].sort(([a], [b]) => positionOf(a) - positionOf(b))
  const pageIndex: PageIndex = new Map()
  for (const [page, { items }] of sorted) {
    for (const { canonicalReference } of items) pageIndex.set(plainReference(canonicalReference), page)
  }
  const texts = sorted.map(([page, { from, items }]): [string, string] => [
    `${page}.md`,
    pageText(page, from, items, pageIndex),
  ])
  return [['README.md', index(sorted)], ...texts]
}

/** Returns each entry point's exports. */
function readDeclarations() {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-api-'))
  try {
    const configs = entries.map((entry) => configFor(entry, folder))
    const compilerState = CompilerState.create(configs[0]!, {
      additionalEntryPoints: entries.map(({ types }) => types),
    })
    return entries.map(({ path, name }, at) => {
      const { succeeded } = Extractor.invoke(configs[at]!, { localBuild: true, compilerState, messageCallback })
      if (!succeeded) throw new Error(`The declarations of ${name} cannot be read`)
      const { members } = JSON.parse(readFileSync(configs[at]!.apiJsonFilePath, 'utf8'))
      const items: Item[] = members[0].members
      const hidden = items.filter((item) => !isExported(item)).map((item) => item.name)
      if (hidden.length > 0) throw new Error(`${name} uses ${hidden.join(', ')}, but does not export them`)
      return { path, name, items }
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const configFor = ({ path, types }: (typeof entries)[number], folder: string) =>
  ExtractorConfig.prepare({
    configObject: {
      projectFolder: root,
      mainEntryPointFilePath: types,
      compiler: {
        overrideTsconfig: {
          compilerOptions: {
            target: 'ES2022',
            lib: ['ES2024', 'ESNext.Disposable'],
            module: 'NodeNext',
            moduleResolution: 'NodeNext',
            types: ['node'],
            strict: true,
            skipLibCheck: true,
          },
          include: [join(root, 'dist/**/*.d.ts')],
        },
      },
      apiReport: { enabled: false },
      // Users must be able to import each type that they meet. `declared` rejects a type that is not exported.
      docModel: {
        enabled: true,
        includeForgottenExports: path === '.',
        apiJsonFilePath: join(folder, path, 'api.json'),
      },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
    },
    configObjectFullPath: undefined,
    packageJsonFullPath: join(root, 'package.json'),
  })

/** Ignores warnings about missing documentation and missing release tags. */
function messageCallback(message: ExtractorMessage) {
  message.handled = message.logLevel !== 'error'
}

function index(pages: [string, Page][]) {
  const rows = pages.map(([page, { from, items }]) => {
    const names = [...new Set(items.map(({ name }) => name))].filter((name) => !name.endsWith('Error'))
    return `| [${page}](${page}.md) | \`${from}\` | ${names.map((name) => `\`${name}\``).join(', ')} |`
  })
  return `# Package exports

<!-- Written by npm run reference from the declarations. -->

The [error reference](../errors.md) lists the errors by their codes.

| page | import from | exports (without errors) |
|---|---|---|
${rows.join('\n')}
`
}

const isExported = ({ canonicalReference }: Item) => !canonicalReference.includes('!~')

const kinds: [title: string, of: string[]][] = [
  ['Functions', ['Function', 'Variable']],
  ['Classes', ['Class']],
  ['Interfaces', ['Interface']],
  ['Types', ['TypeAlias']],
]

function pageText(page: string, from: string, items: Item[], pageIndex: PageIndex) {
  const isError = ({ name }: Item) => name.endsWith('Error')
  const groups: [title: string, items: Item[]][] = [
    ...kinds.map(([title, of]): [string, Item[]] => [
      title,
      items.filter((item) => of.includes(item.kind) && !isError(item)),
    ]),
    ['Errors', items.filter(isError)],
  ]
  const sections = groups
    .filter(([, those]) => those.length > 0)
    .flatMap(([title, those]) => ['', `## ${title}`, ...those.flatMap((item) => section(item, page, pageIndex))])
  const intro = intros[page] ? ['', intros[page]] : []
  const head = [`# ${page}`, '', '<!-- Written by npm run reference from the declarations. -->', ...intro]
  return `${[...head, '', '```ts', `import { … } from '${from}'`, '```', ...sections].join('\n')}\n`
}

function section(item: Item, page: string, pageIndex: PageIndex) {
  const { prose, examples } = readComment(item.docComment)
  const members = (item.members ?? []).filter(({ kind, name }) => kind !== 'Constructor' && !name?.startsWith('['))
  const mentioned = referencesOf([item, ...members]).filter(
    (one) => pageIndex.has(one) && one !== plainReference(item.canonicalReference),
  )
  const links = mentioned.map((one) => {
    const [, name = ''] = /!~?(.*?)(:|$)/.exec(one) ?? []
    const at = pageIndex.get(one)
    return `[${name}](${at === page ? '' : `${at}.md`}#${name.toLowerCase()})`
  })
  return [
    '',
    `### ${item.name}`,
    ...(prose ? ['', prose] : []),
    '',
    '```ts',
    signature(item, members),
    '```',
    ...examples.flatMap((example) => ['', 'For example:', '', '```ts', example, '```']),
    ...members.flatMap((member) => {
      const { examples: shown } = readComment(member.docComment)
      return shown.flatMap((example) => ['', `For example, \`${member.name}\`:`, '', '```ts', example, '```'])
    }),
    ...(links.length > 0 ? ['', `See also: ${links.join(', ')}.`] : []),
  ]
}

/** Returns the declaration, indented by two spaces. */
function textOf({ excerptTokens }: Item) {
  const [first, ...rest] = excerptTokens
    .map(({ text }) => text)
    .join('')
    .trim()
    .split('\n')
  const last = /^ */.exec(rest.at(-1) ?? '')![0].length
  return [
    first,
    ...rest.map((line) => line.slice(last).replace(/^( {4})+/, (spaces) => ' '.repeat(spaces.length / 2))),
  ].join('\n')
}

/** Returns the declaration. Each member is below its doc comment. */
function signature(item: Item, members: Item[]) {
  const head = textOf(item)
    .replace(/^export /, '')
    .replace(/^declare /, '')
  if (item.kind !== 'Class' && item.kind !== 'Interface') return head
  const inside = members.flatMap((member) => {
    const { prose } = readComment(member.docComment)
    const comment = prose ? prose.split('\n').map((line) => `// ${line}`.trimEnd()) : []
    return [...comment, ...textOf(member).split('\n')].map((line) => `  ${line}`)
  })
  return [`${head} {`, ...inside, '}'].join('\n')
}

/** Returns a comment's prose and examples. */
export function readComment(comment = '') {
  const lines = comment
    .replace(/^\/\*\*/, '')
    .replace(/\*\/\s*$/, '')
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, '').trimEnd())
  const [prose = '', ...blocks] = lines.join('\n').split(/^@/m)
  const examples = blocks
    .filter((block) => block.startsWith('example'))
    .map((block) => reindented(block.slice('example'.length).trim()))
  return { prose: prose.trim().replace(/\{@link (\w+)\}/g, '`$1`'), examples }
}

/** Removes the code fence, and replaces an indentation of one space with two spaces. */
function reindented(example: string) {
  const code = example.replace(/^```ts\n(.*)\n```$/s, '$1')
  return /^ (?! )/m.test(code) ? code.replace(/^ +/gm, (spaces) => spaces.repeat(2)) : code
}

const plainReference = (reference: string) => reference.replace(/\(\d+\)$/, '')
const referencesOf = (items: Item[]) => [
  ...new Set(
    items.flatMap(({ excerptTokens }) =>
      excerptTokens.flatMap(({ kind, canonicalReference }) =>
        kind === 'Reference' && canonicalReference ? [plainReference(canonicalReference)] : [],
      ),
    ),
  ),
]
