// Collects the shell commands that the documentation and the help contain.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { examplesOf } from '../../src/cli/command.js'
import { makeProgram } from '../../src/cli/program.js'

export const root = fileURLToPath(new URL('../../', import.meta.url))

const documents = ['README.md', 'CONTRIBUTING.md', ...['docs', 'examples', 'src'].flatMap(documentsIn)]

/** Every line of a shell block in a document, without its comment. */
const documentedLines = documents.flatMap((file) => {
  const blocks = read(file).matchAll(/^```(?:sh|bash|shell|console)\n(.*?)^```$/gms)
  return [...blocks].flatMap(([, block]) => block!.split('\n').map(plain))
})

/** Every example in the help of a command. */
const helpLines = examplesIn(makeProgram()).map(plain)

/** All lines without duplicates. */
export const lines: readonly string[] = [...new Set([...documentedLines, ...helpLines])].filter((line) => line !== '')

/** Commands inside a sentence, such as `holdfast queue resume`. */
export const mentioned: readonly string[] = [
  ...new Set(
    documents.flatMap((file) => [...read(file).matchAll(/`(?:npx )?holdfast ([^`]+)`/g)].map(([, words]) => words!)),
  ),
]

function documentsIn(directory: string): string[] {
  const files = readdirSync(`${root}${directory}`, { recursive: true, encoding: 'utf8' })
  return files
    .filter((file) => file.endsWith('.md') && !file.includes('node_modules'))
    .map((file) => `${directory}/${file}`)
}

function read(file: string): string {
  return readFileSync(`${root}${file}`, 'utf8')
}

function plain(line: string): string {
  return line
    .replace(/\s+# .*$/, '')
    .replace(/^npx /, '')
    .trim()
}

function examplesIn(command: Command): string[] {
  return [...examplesOf(command), ...command.commands.flatMap(examplesIn)]
}
