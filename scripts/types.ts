// Checks the types of all projects at the same time, because one compiler uses only one core.
import { spawn } from 'node:child_process'
import { once } from 'node:events'

const projects = [
  '.',
  'tsconfig.erasable.json',
  'ui',
  'test/browser',
  'test/nestjs',
  'examples/handlers',
  'examples/recipes',
  'test/types/registered',
]
const codes = await Promise.all(
  projects.map(async (project) => {
    const [code] = await once(spawn('tsc', ['-p', project, '--noEmit'], { stdio: 'inherit' }), 'exit')
    return code
  }),
)
process.exitCode = codes.every((code) => code === 0) ? 0 : 1
