// The documents as a site, with search: npm run docs. Pages lie where they are read in the repository, too; essays of the rooms lie
// beside their code, and are part of it.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The name of a page is its first heading. */
function titleOf(file: string): string {
  return /^# (.*)$/m.exec(readFileSync(join(root, file), 'utf8'))?.[1] ?? file
}

const linkTo = (file: string) => ({ text: titleOf(file), link: `/${placeOf(file).replace(/(index)?\.md$/, '')}` })

/** All pages of a folder, the introduction first, then in the order of their titles. */
function room(text: string, folder: string) {
  const names = readdirSync(join(root, folder)).filter((name) => name.endsWith('.md'))
  const pages = names.map((name) => linkTo(`${folder}/${name}`))
  const isFirst = ({ link }: { link: string }) => link.endsWith('/')
  pages.sort((a, b) => Number(isFirst(b)) - Number(isFirst(a)) || a.text.localeCompare(b.text, 'en'))
  return { text, collapsed: true, items: pages }
}

/** Where a file of the repository stands on the site. */
function placeOf(file: string): string {
  return file.replace(/^docs\//, '').replace(/README\.md$/, 'index.md')
}

/** Where a link of a page leads on the site: pages to pages, folders to what introduces them, and the rest to the files themselves. */
function hrefFrom(page: string, href: string): string {
  if (/^([a-z]+:|#|\/)/.test(href)) return href
  const [path = '', hash] = href.split('#')
  let target = relative(root, join(dirname(page), decodeURI(path)))
  if (statSync(join(root, target), { throwIfNoEntry: false })?.isDirectory()) {
    while (target !== '' && !existsSync(join(root, target, 'README.md'))) target = relative('.', dirname(target))
    target = join(target, 'README.md')
  }
  return `/${placeOf(target)}${hash === undefined ? '' : `#${hash}`}`
}

const essays = ['locks', 'leases', 'elections', 'limits', 'once', 'shares', 'schedules', 'jobs', 'observe', 'cli']

const projectPages = ['CHANGELOG.md', 'ROADMAP.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md']

/** Files and folders that documents link to although they are no pages, such as examples. They are served unchanged. */
const linked = ['examples', 'src', 'bench', 'faults', 'docs/images', 'LICENSE']

export default defineConfig({
  title: 'Holdfast',
  description:
    'Distributed locks, leader election, cron schedules, a job queue, rate limits and idempotent webhooks for Node.js on PostgreSQL.',
  srcDir: '..',
  srcExclude: ['**/node_modules/**', '**/dist/**', '.github/**', 'examples/cluster/data/**'],
  rewrites: placeOf,
  // The path of the site, such as /holdfast/ on GitHub Pages.
  base: process.env.DOCS_BASE ?? '/',
  cleanUrls: true,
  // Files that are served as they are.
  ignoreDeadLinks: [/\.(sql|sh)$/, /^\/LICENSE$/],
  markdown: {
    // The same anchors as on GitHub, which keeps the underscores of error codes.
    anchor: {
      slugify: (heading) =>
        heading
          .toLowerCase()
          .replaceAll(/[^\p{L}\p{N}_\s-]/gu, '')
          .replaceAll(/\s/g, '-'),
    },
    config(md) {
      const open = md.renderer.rules.link_open!
      md.renderer.rules.link_open = (tokens, at, options, env, self) => {
        const token = tokens[at]!
        token.attrSet('href', hrefFrom(env.realPath ?? env.path, token.attrGet('href') ?? ''))
        return open(tokens, at, options, env, self)
      }
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Start', link: '/start/' },
      { text: 'Guides', link: '/guides/locks' },
      { text: 'Operating', link: '/operating/runbooks' },
      { text: 'Reference', link: '/reference/api/' },
    ],
    sidebar: [
      { ...room('Start', 'docs/start'), collapsed: false },
      room('Concepts', 'docs/concepts'),
      room('Guides', 'docs/guides'),
      room('Coming from', 'docs/guides/coming-from'),
      room('Operating', 'docs/operating'),
      room('Reference', 'docs/reference'),
      room('Package exports', 'docs/reference/api'),
      { text: 'Essays', collapsed: true, items: essays.map((name) => linkTo(`src/${name}/README.md`)) },
      room('Decisions', 'docs/decisions'),
      { text: 'The project', collapsed: true, items: projectPages.map(linkTo) },
    ],
  },
  buildEnd({ outDir }) {
    for (const name of linked) {
      const to = join(outDir, placeOf(name))
      if (!existsSync(join(root, name))) continue
      mkdirSync(dirname(to), { recursive: true })
      cpSync(join(root, name), to, { recursive: true, filter: (path) => !path.includes('node_modules') })
    }
  },
})
