// Checks that every relative link of a document has an existing target: a document, a heading or a file.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const pages = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
  (name) => name.endsWith('.md') && !/(^|\/)(node_modules|dist|\.vitepress)\//.test(name),
)

/** Returns the anchors that GitHub and the documentation site create for headings. */
function anchorsOf(file: string): Set<string> {
  const text = readFileSync(file, 'utf8').replaceAll(/^```.*?^```$/gms, '')
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading!)
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_\s-]/gu, '')
        .replaceAll(/\s/g, '-'),
    ),
  )
}

test('every relative link in the documentation has an existing target', () => {
  expect(pages.length).toBeGreaterThan(80)
  const broken = pages.flatMap((page) => {
    const text = readFileSync(join(root, page), 'utf8').replaceAll(/^```.*?^```$/gms, '')
    return [...text.matchAll(/\]\((?![a-z]+:)([^)\s]+)\)/g)].flatMap(([, link]) => {
      const [path = '', anchor] = link!.split('#')
      const target = path === '' ? join(root, page) : join(root, dirname(page), decodeURI(path))
      if (!existsSync(target)) return [`${page}: ${link}`]
      if (anchor === undefined || statSync(target).isDirectory()) return []
      return anchorsOf(target).has(anchor) ? [] : [`${page}: ${link}`]
    })
  })
  expect(broken).toEqual([])
})
