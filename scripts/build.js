// Compiles src/ to dist/ and puts the .sql files, which the code reads at run time, beside their rooms.
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync } from 'node:fs'
import { extname } from 'node:path'

rmSync('dist', { recursive: true, force: true })
execFileSync('tsc', ['-p', 'tsconfig.build.json'], { stdio: 'inherit' })
cpSync('src', 'dist', { recursive: true, filter: (path) => ['', '.sql'].includes(extname(path)) })
chmodSync('dist/cli/bin.js', 0o755)
