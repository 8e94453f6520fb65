// Writes dist/: the declarations, the bundled code, and the files that the code reads at run time (SQL and shell scripts). Also writes the
// command line's JSON schemas, the dashboard's front end from ui/, and the list of files that npm does not pack.
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync } from 'node:fs'
import { extname } from 'node:path'
import { build } from 'vite'
import { bundle } from './bundle.ts'
import { ignoreUnreachableDeclarations } from './declarations.ts'
import { writeSchemas } from './schemas.ts'

rmSync('dist', { recursive: true, force: true })
execFileSync('tsc', ['-p', 'tsconfig.build.json'], { stdio: 'inherit' })
await bundle('dist')
cpSync('src', 'dist', {
  recursive: true,
  filter: (path) => ['', '.sql', '.bash', '.zsh', '.fish'].includes(extname(path)),
})
chmodSync('dist/cli/bin.js', 0o755)
writeSchemas('dist/schemas')
ignoreUnreachableDeclarations('dist')
await build({ root: 'ui', logLevel: 'warn' })
