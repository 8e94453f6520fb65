// Runs TypeScript on Node 20: node --import ./scripts/typescript.js examples/leader.ts
//
// Later versions of Node.js run TypeScript by themselves, and this does nothing there. It is JavaScript because it is what runs first.
// Types are replaced by spaces, with the program that Node.js itself uses, so that lines and columns stay where they are.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire, register } from 'node:module'
import { pathToFileURL } from 'node:url'
import { isMainThread } from 'node:worker_threads'

const isNeeded = !process.features.typescript

// Node.js loads this file again in the thread that runs the hook.
if (isNeeded && isMainThread) {
  // A module that is imported after `register` passes through that thread, and the package has hundreds. So a program that needs the package
  // loads it first: it starts in half the time.
  const program = process.argv[1] ?? ''
  if (program.endsWith('.ts') && readFileSync(program, 'utf8').includes("from 'holdfast'")) {
    await import(pathToFileURL(createRequire(program).resolve('holdfast')).href)
  }
  register(import.meta.url)
}

/** The hook: https://nodejs.org/docs/latest-v20.x/api/module.html#loadurl-context-nextload */
export async function load(url, context, nextLoad) {
  if (!url.startsWith('file:') || !new URL(url).pathname.endsWith('.ts')) return nextLoad(url, context)
  return { format: 'module', source: stripped(readFileSync(new URL(url), 'utf8')), shortCircuit: true }
}

const cache = new URL('../node_modules/.cache/holdfast-typescript/', import.meta.url)

/** Cached by its content, because loading the stripper takes longer than all else here. */
function stripped(text) {
  const file = new URL(createHash('sha256').update(text).digest('hex'), cache)
  try {
    return readFileSync(file, 'utf8')
  } catch {
    const { code } = createRequire(import.meta.url)('amaro').transformSync(text, { mode: 'strip-only' })
    remember(file, code)
    return code
  }
}

function remember(file, code) {
  try {
    mkdirSync(cache, { recursive: true })
    // Another process may read it at the same time.
    const unfinished = new URL(`${file}.${process.pid}`)
    writeFileSync(unfinished, code)
    renameSync(unfinished, file)
  } catch {
    // This user may not write here, and strips again next time.
  }
}
