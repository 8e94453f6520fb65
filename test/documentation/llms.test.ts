// Checks what the documentation site offers to programs that read: llms.txt, and a Markdown twin of each page.
import { expect, test } from 'vitest'
import { groups, llmsText, placeOf, twinOf } from '../../docs/.vitepress/pages.js'

const pages = groups().flatMap(({ pages }) => pages)
const places = new Set(pages.map((page) => `/site/${placeOf(page)}`))
const linksIn = (text: string) => [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, href]) => href!)

test('llms.txt lists each page with its title and its Markdown twin', () => {
  const text = llmsText('/site/')
  expect(text).toMatch(/^# Holdfast\n\n> Distributed locks, /)
  expect(text).toContain('- [Playbook: choose the right call](/site/guides/playbook.md): This page ')
  expect(new Set(linksIn(text))).toEqual(places)
})

test('each link of a Markdown twin leads to a page or to a file of the site', () => {
  const files = /^\/site\/(?:examples|src|bench|faults|deploy|images|test|LICENSE|docs|\.github|scripts|README)/
  const broken = pages.flatMap((page) => {
    const text = twinOf(page, '/site/').replaceAll(/^```.*?^```$/gms, '')
    return linksIn(text)
      .map((href) => href.split('#')[0]!)
      .filter((href) => href.startsWith('/') && !places.has(href) && !files.test(href))
      .map((href) => `${page}: ${href}`)
  })
  expect(broken).toEqual([])
  expect(twinOf('docs/guides/playbook.md', '/site/')).toContain('[jobs](/site/guides/jobs.md)')
})
