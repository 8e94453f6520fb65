// Links of the packed documentation, which is only a part of the documentation.
import { posix } from 'node:path'

export interface Repository {
  readonly address: string
  readonly tag: string
}

interface Manifest {
  readonly version: string
  readonly repository?: string | { readonly url: string }
}

/** Returns where the files of this version are. Undefined if package.json names no repository. */
export function repositoryOf({ repository, version }: Manifest): Repository | undefined {
  const given = typeof repository === 'object' ? repository.url : repository
  if (!given) return undefined
  const url = given.replace(/^git\+/, '').replace(/\.git$/, '')
  return {
    address: url.includes('://') ? url : `https://github.com/${url.replace(/^github:/, '')}`,
    tag: `v${version}`,
  }
}

const linkPattern = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)/g

/**
 * Replaces each relative link of a page to a file that is not packed: by a link to the repository or, without a repository, by the text of the
 * link.
 */
export function withPackedLinks(
  text: string,
  page: string,
  packed: ReadonlySet<string>,
  repository: Repository | undefined,
): string {
  const replaceLink = (link: string, mark: string, label: string, path: string, anchor = '') => {
    const target = posix.join(posix.dirname(page), path).replace(/\/$/, '')
    if (packed.has(target)) return link
    if (!repository) return `${label} (in the repository)`
    const kind = mark === '!' ? 'raw' : posix.extname(target) === '' ? 'tree' : 'blob'
    return `${mark}[${label}](${repository.address}/${kind}/${repository.tag}/${target}${anchor})`
  }
  // The parts with an odd index are blocks of code.
  const parts = text.split(/(^```.*?^```$)/gms)
  return parts.map((part, at) => (at % 2 === 1 ? part : part.replaceAll(linkPattern, replaceLink))).join('')
}
