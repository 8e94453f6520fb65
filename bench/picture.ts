// Draws the bar chart for the documentation: node bench/picture.ts report.json > docs/images/jobs.svg
import { readFileSync } from 'node:fs'
import { median } from './measure.ts'

const report = JSON.parse(readFileSync(process.argv[2]!, 'utf8'))
const loads = ['sustained', 'sustained, with an old snapshot open', 'drained']
const [width, left, bar, gap] = [760, 220, 18, 6]

let y = 14
const parts: string[] = []
for (const load of loads) {
  const throughput: Record<string, { perSecond: number }[]> = report.jobs.throughput[load]
  const outcomes = Object.entries(throughput)
    .filter(([name]) => !name.endsWith('defaults'))
    .map(([name, rounds]): [string, number] => [name, median(rounds.map(({ perSecond }) => perSecond))])
    .sort(([, a], [, b]) => b - a)
  const max = outcomes[0]![1]
  parts.push(`<text x="0" y="${y + 4}" class="title">Jobs per second, ${load}</text>`)
  y += 20
  for (const [name, perSecond] of outcomes) {
    const length = Math.max(2, (perSecond / max) * (width - left - 80))
    const figure = Math.round(perSecond).toLocaleString('en')
    parts.push(
      `<text x="${left - 10}" y="${y + 13}" text-anchor="end">${name}</text>`,
      `<rect x="${left}" y="${y}" width="${length.toFixed(1)}" height="${bar}" rx="3" class="${name.startsWith('holdfast') ? 'ours' : 'theirs'}"/>`,
      `<text x="${(left + length + 8).toFixed(1)}" y="${y + 13}">${figure}</text>`,
    )
    y += bar + gap
  }
  y += 18
}

console.log(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y}" width="${width}" height="${y}" role="img">
<title>Jobs per second of Holdfast and other job queues</title>
<style>
text { font: 13px system-ui, sans-serif; fill: #556170 }
.title { font-weight: 600; fill: #17202b }
.ours { fill: #0b6680 }
.theirs { fill: #a9b4c0 }
@media (prefers-color-scheme: dark) { text { fill: #9aa7b5 } .title { fill: #e4e9ef } .ours { fill: #5cc3dc } .theirs { fill: #4a5766 } }
</style>
${parts.join('\n')}
</svg>`)
