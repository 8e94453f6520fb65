// Runs TypeScript on Node 20: node --import ./scripts/typescript.js examples/leader.ts
//
// Later versions of Node.js run TypeScript without help, and this file does nothing there. This file is JavaScript, because Node.js loads it
// before it can run TypeScript. The program that Node.js itself uses replaces types by spaces, so that lines and columns do not change.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire, register } from 'node:module'
import { pathToFileURL } from 'node:url'

const isNeeded = !process.features.typescript

// Node.js loads this file again in the thread that runs the hook, and in each other thread of the program.
if (isNeeded && new URL(import.meta.url).search === '') {
  // Each module that is imported after `register` passes through that thread. If the program needs the package, this file imports the
  // package before `register`, which saves 50 ms of CPU time.
  const program = process.argv[1] ?? ''
  if (program.endsWith('.ts') && readFileSync(program, 'utf8').includes("from 'holdfast'")) {
    await import(pathToFileURL(createRequire(program).resolve('holdfast')).href)
  }
  register(`${import.meta.url}?hook`)
}

/** The hook: https://nodejs.org/docs/latest-v20.x/api/module.html#loadurl-context-nextload */
export async function load(url, context, nextLoad) {
  if (!url.startsWith('file:') || !new URL(url).pathname.endsWith('.ts')) return nextLoad(url, context)
  return { format: 'module', source: stripped(readFileSync(new URL(url), 'utf8')), shortCircuit: true }
}

const cache = new URL('../node_modules/.cache/holdfast-typescript/', import.meta.url)

/** Returns the code without types. A cache file per content avoids loading amaro, which takes most of the time. */
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
    // Another process may read the file at the same time, so the file gets its name when it is complete.
    const incomplete = new URL(`${file}.${process.pid}`)
    writeFileSync(incomplete, code)
    renameSync(incomplete, file)
  } catch {
    // The user has no permission to write here. The next start strips the types again.
  }
}
