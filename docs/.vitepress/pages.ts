// The pages of the site: their titles, their addresses, and their Markdown twins for programs that read.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../..', import.meta.url))

export const description =
  'Distributed locks, leader election, cron schedules, a job queue, rate limits and idempotent webhooks for Node.js on PostgreSQL.'

/** A group of pages in the sidebar. */
export interface Group {
  readonly text: string
  readonly pages: readonly string[]
}

const read = (page: string) => readFileSync(join(root, page), 'utf8')

/** Returns the first heading of a page. */
export function titleOf(page: string): string {
  return /^# (.*)$/m.exec(read(page))?.[1] ?? page
}

/** Returns the first sentence after the first heading, or an empty text if the page begins with a table or code. */
function summaryOf(page: string): string {
  const [, paragraph = ''] = /^# .*\n\n([A-Z][^|]*?)(?:\n\n|$)/m.exec(read(page)) ?? []
  const plain = paragraph
    .replace(/\s+/g, ' ')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll('**', '')
  return /^.*?[.:](?= |$)/.exec(plain)?.[0].replace(/:$/, '.') ?? ''
}

/** Returns where a file of the repository is on the site. */
export function placeOf(file: string): string {
  return file.replace(/^docs\//, '').replace(/README\.md$/, 'index.md')
}

/** Returns the target of a link on the site: pages for pages, the introduction of a folder for the folder, and files for all other links. */
export function hrefFrom(page: string, href: string): string {
  if (/^([a-z]+:|#|\/)/.test(href)) return href
  const [path = '', hash] = href.split('#')
  let target = relative(root, join(root, dirname(page), decodeURI(path)))
  if (statSync(join(root, target), { throwIfNoEntry: false })?.isDirectory()) {
    while (target !== '' && !existsSync(join(root, target, 'README.md'))) target = relative('.', dirname(target))
    target = join(target, 'README.md')
  }
  return `/${placeOf(target)}${hash === undefined ? '' : `#${hash}`}`
}

/** Returns the pages of a folder, its introduction first, then in the order of their titles. */
function pagesIn(folder: string): string[] {
  const names = readdirSync(join(root, folder)).filter((name) => name.endsWith('.md'))
  const isIntroduction = (name: string) => Number(name === 'README.md')
  names.sort(
    (a, b) =>
      isIntroduction(b) - isIntroduction(a) || titleOf(`${folder}/${a}`).localeCompare(titleOf(`${folder}/${b}`), 'en'),
  )
  return names.map((name) => `${folder}/${name}`)
}

const essays = ['locks', 'leases', 'elections', 'limits', 'once', 'shares', 'schedules', 'jobs', 'observe', 'cli']

/** Returns the groups of the sidebar. */
export function groups(): Group[] {
  return [
    { text: 'Start', pages: ['README.md', ...pagesIn('docs/start')] },
    { text: 'Concepts', pages: pagesIn('docs/concepts') },
    { text: 'Guides', pages: pagesIn('docs/guides') },
    { text: 'Migrate', pages: pagesIn('docs/guides/coming-from') },
    { text: 'Operation', pages: pagesIn('docs/operating') },
    { text: 'Reference', pages: pagesIn('docs/reference') },
    { text: 'Package exports', pages: pagesIn('docs/reference/api') },
    { text: 'Essays', pages: essays.map((name) => `src/${name}/README.md`) },
    { text: 'Decisions', pages: pagesIn('docs/decisions') },
    {
      text: 'The project',
      pages: ['CHANGELOG.md', 'ROADMAP.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md'],
    },
  ]
}

/** Returns the Markdown of a page with links that work on the site. */
export function twinOf(page: string, base: string): string {
  const parts = read(page).split(/(^```[\s\S]*?^```$)/m)
  const relink = (text: string) =>
    text.replace(/\]\(([^)\s]+)\)/g, (_, href: string) => `](${hrefFrom(page, href).replace(/^\//, base)})`)
  return parts.map((part) => (part.startsWith('```') ? part : relink(part))).join('')
}

/** Groups that a reader needs only for details. */
const optional = new Set(['Essays', 'Decisions', 'The project'])

/** Returns the text of llms.txt: a list of all pages with links to their Markdown twins. See https://llmstxt.org. */
export function llmsText(base: string): string {
  const entry = (page: string) => {
    const summary = summaryOf(page)
    return `- [${titleOf(page)}](${base}${placeOf(page)})${summary === '' ? '' : `: ${summary}`}\n`
  }
  const all = groups()
  const sections = all
    .filter(({ text }) => !optional.has(text))
    .map(({ text, pages }) => `## ${text}\n\n${pages.map(entry).join('')}`)
  const details = all.filter(({ text }) => optional.has(text)).flatMap(({ pages }) => pages)
  return [
    '# Holdfast\n',
    `> ${description}\n`,
    `Read the [playbook](${base}guides/playbook.md) first: it selects a call for a task. The npm package contains these pages in \`node_modules/holdfast/docs\`.\n`,
    ...sections,
    `## Optional\n\n${details.map(entry).join('')}`,
  ].join('\n')
}
