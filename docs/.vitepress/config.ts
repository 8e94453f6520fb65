// The documents as a site, with search: npm run docs. The pages stay where they are in the repository. The essays of the rooms are next to their
// code.
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { defineConfig } from 'vitepress'
import { description, groups, hrefFrom, llmsText, placeOf, root, titleOf, twinOf } from './pages.ts'

const linkTo = (page: string) => ({ text: titleOf(page), link: `/${placeOf(page).replace(/(index)?\.md$/, '')}` })

/** Files and folders that documents link to although they are no pages, such as examples. They are served unchanged. */
const linked = ['examples', 'src', 'bench', 'faults', 'docs/images', 'LICENSE']

/** The path of the site, such as /holdfast/ on GitHub Pages. */
const base = process.env.DOCS_BASE ?? '/'

export default defineConfig({
  title: 'Holdfast',
  description,
  srcDir: '..',
  srcExclude: ['**/node_modules/**', '**/dist/**', '.github/**', 'examples/cluster/data/**'],
  rewrites: placeOf,
  base,
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
        token.attrSet('href', hrefFrom(relative(root, env.realPath ?? env.path), token.attrGet('href') ?? ''))
        return open(tokens, at, options, env, self)
      }
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Start', link: '/start/' },
      { text: 'Guides', link: '/guides/' },
      { text: 'Operation', link: '/operating/' },
      { text: 'Reference', link: '/reference/api/' },
    ],
    sidebar: groups().map(({ text, pages }) => ({ text, collapsed: text !== 'Start', items: pages.map(linkTo) })),
  },
  buildEnd({ outDir }) {
    for (const name of linked) {
      const to = join(outDir, placeOf(name))
      if (!existsSync(join(root, name))) continue
      mkdirSync(dirname(to), { recursive: true })
      cpSync(join(root, name), to, { recursive: true, filter: (path) => !path.includes('node_modules') })
    }
    // A Markdown twin of each page, and a list of all pages, for programs that read.
    for (const page of groups().flatMap(({ pages }) => pages)) {
      const to = join(outDir, placeOf(page))
      mkdirSync(dirname(to), { recursive: true })
      writeFileSync(to, twinOf(page, base))
    }
    writeFileSync(join(outDir, 'llms.txt'), llmsText(base))
  },
})
