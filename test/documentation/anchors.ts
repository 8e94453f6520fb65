import { readFileSync } from 'node:fs'

/** Returns the anchors that GitHub and the documentation site create for headings. */
export function anchorsOf(file: string): Set<string> {
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
