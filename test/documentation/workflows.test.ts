// Checks the workflows of GitHub Actions, which run only on GitHub: the scripts that they call exist, actions are pinned, and jobs have few rights.
import { accessSync, constants, existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { describe, expect, test } from 'vitest'
import { root } from './lines.js'

interface Step {
  readonly uses?: string
  readonly run?: string
  readonly with?: Record<string, unknown>
}

interface Job {
  readonly uses?: string
  readonly 'runs-on'?: string
  readonly 'timeout-minutes'?: number
  readonly permissions?: Record<string, string>
  readonly strategy?: { readonly matrix: Record<string, (number | string)[]> }
  readonly steps?: Step[]
}

interface Workflow {
  readonly permissions?: Record<string, string>
  readonly concurrency?: { readonly group: string }
  readonly jobs: Record<string, Job>
}

const read = (file: string) => readFileSync(join(root, file), 'utf8')
const { engines, scripts, tested } = JSON.parse(read('package.json'))
const folder = '.github/workflows'
const files = readdirSync(join(root, folder))
const parse = (file: string) => load(read(`${folder}/${file}`)) as Workflow

/** Jobs that may change something outside their own run. */
const rights: Record<string, Record<string, string>> = {
  'docs.yml deploy': { pages: 'write', 'id-token': 'write' },
  'release.yml publish': { 'id-token': 'write' },
  'release.yml announce': { contents: 'write' },
}

test('there are workflows for commits, the night, releases and the documentation', () => {
  expect(files.sort()).toEqual(['ci.yml', 'docs.yml', 'nightly.yml', 'release.yml'])
})

test('CI tests all versions that package.json lists', () => {
  expect(parse('ci.yml').jobs.linux!.strategy!.matrix).toEqual({
    node: tested.node,
    postgresql: Object.keys(tested.postgresql).map(Number),
  })
})

test('CI runs the smoke suite on the oldest Node.js, on each later version, and on the tested versions of Bun and Deno', () => {
  const [, ...later] = tested.node.map((version: number) => `node@${version}`)
  expect(parse('ci.yml').jobs.runtimes!.strategy!.matrix).toEqual({
    runtime: [`node@${engines.node.replace('>=', '')}`, ...later, `bun@${tested.bun}`, `deno@${tested.deno}`],
  })
})

test('every action has the same commit in all workflows', () => {
  const used = files.flatMap((file) => [...read(`${folder}/${file}`).matchAll(/uses: (.*)@(.*)$/gm)])
  const commits = new Map<string, Set<string>>()
  for (const [, action, version] of used) commits.set(action!, (commits.get(action!) ?? new Set()).add(version!))
  expect(commits.size).toBeGreaterThan(3)
  for (const [action, versions] of commits) expect([action, [...versions]]).toEqual([action, [expect.any(String)]])
})

describe.each(files)('%s', (file) => {
  const workflow = parse(file)
  const jobs = Object.entries(workflow.jobs)
  const steps = jobs.flatMap(([, job]) => job.steps ?? [])
  const commands = steps.flatMap(({ run }) => run ?? [])

  test('every action is pinned by the hash of a commit, with the version in a comment', () => {
    const lines = [...read(`${folder}/${file}`).matchAll(/uses: (.*)$/gm)].map(([, line]) => line!)
    expect(lines.length).toBeGreaterThan(0)
    for (const line of lines) {
      if (line.startsWith('./')) expect(existsSync(join(root, line)), line).toBe(true)
      else expect(line).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
    }
  })

  test('jobs can only read the repository, with a few exceptions', () => {
    expect(workflow.permissions).toEqual({ contents: 'read' })
    for (const [name, { permissions }] of jobs) expect(permissions, name).toEqual(rights[`${file} ${name}`])
  })

  test('a checkout leaves no token behind', () => {
    const checkouts = steps.filter(({ uses }) => uses?.startsWith('actions/checkout@'))
    for (const checkout of checkouts) expect(checkout.with).toMatchObject({ 'persist-credentials': false })
  })

  test('every job has a time limit and an exact runner', () => {
    expect(workflow.concurrency?.group).toEqual(expect.any(String))
    for (const [name, job] of jobs) {
      if (job.uses) continue
      expect(job['timeout-minutes'], name).toBeLessThanOrEqual(180)
      expect(job['runs-on'], name).toMatch(/^(ubuntu|macos)-\d/)
    }
  })

  test('every command exists in this repository', () => {
    for (const run of commands) {
      for (const [, name] of run.matchAll(/npm run (?:--silent )?([\w:]+)/g))
        expect(scripts, run).toHaveProperty([name!])
      for (const [path] of run.matchAll(/\.ci\/\w+/g)) accessSync(join(root, path), constants.X_OK)
      expect(run).toMatch(/^(npm (ci|run|audit|publish) ?|\.ci\/|gh release )/)
    }
  })

  test('no command contains text that a contributor can choose', () => {
    for (const run of commands) expect(run).not.toMatch(/\$\{\{(?! matrix\.)/)
  })
})
