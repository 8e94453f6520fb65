// Compiles src/ to dist/. Copies the files that the code reads at run time, SQL and shell scripts, next to the compiled
// files. Writes the command line's JSON schemas. Bundles the dashboard's front end from ui/.
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync } from 'node:fs'
import { extname } from 'node:path'
import { build } from 'vite'
import { writeSchemas } from './schemas.ts'

rmSync('dist', { recursive: true, force: true })
execFileSync('tsc', ['-p', 'tsconfig.build.json'], { stdio: 'inherit' })
cpSync('src', 'dist', {
  recursive: true,
  filter: (path) => ['', '.sql', '.bash', '.zsh', '.fish'].includes(extname(path)),
})
chmodSync('dist/cli/bin.js', 0o755)
writeSchemas('dist/schemas')
await build({ root: 'ui', logLevel: 'warn' })
