// Checks that every relative link of a document has an existing target: a document, a heading or a file.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { anchorsOf } from './anchors.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const pages = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
  (name) => name.endsWith('.md') && !/(^|\/)(node_modules|dist|\.vitepress)\//.test(name),
)

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
