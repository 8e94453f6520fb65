// Compiles src/ to dist/ and puts what the code reads at run time, the SQL and the scripts of shells, beside their rooms. The front end
// of the dashboard is put together from ui/: whoever installs the package has it ready.
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync } from 'node:fs'
import { extname } from 'node:path'
import { build } from 'vite'

rmSync('dist', { recursive: true, force: true })
execFileSync('tsc', ['-p', 'tsconfig.build.json'], { stdio: 'inherit' })
cpSync('src', 'dist', {
  recursive: true,
  filter: (path) => ['', '.sql', '.bash', '.zsh', '.fish'].includes(extname(path)),
})
chmodSync('dist/cli/bin.js', 0o755)
await build({ root: 'ui', logLevel: 'warn' })
