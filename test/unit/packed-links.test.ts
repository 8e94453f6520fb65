import { expect, test } from 'vitest'
import { repositoryOf, withPackedLinks } from '../../scripts/packed-links.js'

const packed = new Set(['README.md', 'docs/guides/locks.md'])
const page = `[locks](locks.md#waiting), [\`[a]\` example](../../examples/leader.ts), [rooms](../../src/locks/#files)
![image](../images/now.png) [site](https://example.com) [here](#here)
\`\`\`md
[code](../../examples/leader.ts)
\`\`\`
`

test('without a repository, only the text of a link to an unpacked file remains', () => {
  expect(
    withPackedLinks(page, 'docs/guides/page.md', packed, undefined),
  ).toBe(`[locks](locks.md#waiting), \`[a]\` example (in the repository), rooms (in the repository)
image (in the repository) [site](https://example.com) [here](#here)
\`\`\`md
[code](../../examples/leader.ts)
\`\`\`
`)
})

test.each(['owner/project', 'github:owner/project', { url: 'git+https://github.com/owner/project.git' }])(
  'with the repository %j, a link to an unpacked file leads to the repository',
  (repository) => {
    const address = 'https://github.com/owner/project'
    const found = repositoryOf({ version: '1.2.3', repository })
    expect(found).toEqual({ address, tag: 'v1.2.3' })
    expect(withPackedLinks(page, 'docs/guides/page.md', packed, found).split('\n').slice(0, 2)).toEqual([
      `[locks](locks.md#waiting), [\`[a]\` example](${address}/blob/v1.2.3/examples/leader.ts), [rooms](${address}/tree/v1.2.3/src/locks#files)`,
      `![image](${address}/raw/v1.2.3/docs/images/now.png) [site](https://example.com) [here](#here)`,
    ])
  },
)
