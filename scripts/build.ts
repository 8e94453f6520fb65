// Writes dist/: the declarations, the bundled code, the files that the code reads at run time (SQL and shell scripts),
// the command line's JSON schemas, and the dashboard's front end from ui/.
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync } from 'node:fs'
import { extname } from 'node:path'
import { build } from 'vite'
import { bundle } from './bundle.ts'
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
await build({ root: 'ui', logLevel: 'warn' })
