// Checks the files for Docker and Kubernetes in deploy/, and the page about other platforms. The command line's parser must accept each
// command, and the parts of the files must fit together. No image is built, and no cluster or platform is used.
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Command } from 'commander'
import { describe, expect, test } from 'vitest'
import { parseDuration } from '../../src/base/index.js'
import type { EnvOption } from '../../src/cli/options.js'
import { makeProgram } from '../../src/cli/program.js'
import { root } from './lines.js'

const { load, loadAll } = createRequire(import.meta.url)('js-yaml') as {
  load: (text: string) => unknown
  loadAll: (text: string) => unknown[]
}
const read = (file: string) => readFileSync(join(root, 'deploy', file), 'utf8')

interface Service {
  readonly build?: string
  readonly command?: string[]
  readonly environment?: Record<string, string>
  readonly network_mode?: string
  readonly stop_grace_period?: string
  readonly healthcheck?: { readonly test?: string[]; readonly disable?: boolean }
  readonly depends_on?: Record<string, unknown>
  readonly volumes?: string[]
}

interface Probe {
  readonly httpGet?: { readonly path: string; readonly port: string }
  readonly exec?: { readonly command: string[] }
}

interface Container {
  readonly name: string
  readonly command?: string[]
  readonly args: string[]
  readonly env: { readonly name: string }[]
  readonly ports: { readonly name: string; readonly containerPort: number }[]
  readonly readinessProbe: Probe
  readonly livenessProbe?: Probe
}

interface Pod {
  readonly containers: Container[]
  readonly terminationGracePeriodSeconds?: number
  readonly securityContext: { readonly runAsNonRoot: boolean }
}

type Labels = Record<string, string>

type Manifest =
  | {
      readonly kind: 'Deployment'
      readonly spec: {
        readonly selector: { readonly matchLabels: Labels }
        readonly template: { readonly metadata: { readonly labels: Labels }; readonly spec: Pod }
      }
    }
  | {
      readonly kind: 'Service'
      readonly spec: { readonly selector: Labels; readonly ports: { readonly targetPort: string }[] }
    }
  | { readonly kind: 'PodDisruptionBudget'; readonly spec: { readonly selector: { readonly matchLabels: Labels } } }

const compose = load(read('docker/compose.yml')) as {
  readonly services: Record<string, Service>
  readonly volumes: Record<string, unknown>
}
const services = Object.entries(compose.services)
const manifests = readdirSync(join(root, 'deploy/kubernetes')).flatMap(
  (file) => loadAll(read(`kubernetes/${file}`)) as Manifest[],
)
const deployments = manifests.flatMap((one) => (one.kind === 'Deployment' ? [one.spec] : []))
const containers = deployments.flatMap(({ template }) => template.spec.containers)

/** The instructions of the Dockerfile: the keyword and the rest of the line. */
const instructions = read('docker/Dockerfile')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => /^([A-Z]+) (.*)$/.exec(line)!.slice(1) as [string, string])
const argumentsOf = (keyword: string) => instructions.filter(([name]) => name === keyword).map(([, rest]) => rest)
const imageCommand = JSON.parse(argumentsOf('CMD').at(-1)!) as string[]

/** The commands in the configuration files of the page about platforms, with the time that each platform gives the worker. */
const platforms = readFileSync(join(root, 'docs/operating/platforms.md'), 'utf8')
const platformCommands = [...platforms.matchAll(/\.bin\/holdfast ([\w./ -]+)/g)]
  .map(([, words]) => words!.trim().split(' '))
  .filter(([verb]) => verb !== 'directly')

/** Every command that a container runs as the arguments of `holdfast`. */
const commands: [place: string, words: string[]][] = [
  ['Dockerfile', imageCommand],
  ...services.flatMap(([name, { command }]): [string, string[]][] =>
    command ? [[`compose.yml ${name}`, command]] : [],
  ),
  ...containers.map(({ name, args }): [string, string[]] => [`kubernetes ${name}`, args]),
  ...platformCommands.map((words): [string, string[]] => [`platforms.md ${words.join(' ')}`, words]),
]

function leavesOf(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf)
}

/** Parses a command without running it. Throws an error if the parser does not accept the command. */
async function parse(words: readonly string[]): Promise<{ name: string; options: Labels }> {
  const program = makeProgram()
  const parsed: Command[] = []
  for (const leaf of leavesOf(program)) {
    leaf.action(() => void parsed.push(leaf))
  }
  await program.parseAsync([...words], { from: 'user' })
  return { name: parsed[0]!.name(), options: parsed[0]!.opts() }
}

/** Environment variables that the command line reads. */
const variables = new Set(
  [makeProgram(), ...leavesOf(makeProgram())].flatMap(({ options }) =>
    options.flatMap((option) => (option as EnvOption).variable ?? []),
  ),
)

const secondsOf = (duration: string) => parseDuration(duration)! / 1_000

test('parse refuses unknown commands and options', async () => {
  await expect(parse(['works', 'dist/jobs.js'])).rejects.toThrow('unknown command')
  await expect(parse(['work', 'dist/jobs.js', '--drains', '45s'])).rejects.toThrow('unknown option')
  await expect(parse(['work'])).rejects.toThrow('missing required argument')
})

test.each(commands)('the command line accepts the command of %s', async (_, words) => {
  const { name, options } = await parse(words)
  expect(['work', 'dashboard', 'migrate']).toContain(name)
  for (const port of [options.metricsPort, options.port]) if (port !== undefined) expect(port).toMatch(/^\d{4}$/)
  if (options.drain !== undefined) expect(secondsOf(options.drain)).toBeGreaterThan(0)
})

test('Heroku and Fly.io kill a worker at least 10 s after its drain has ended', async () => {
  const workers = platformCommands.filter(([verb]) => verb === 'work')
  const limits = [30, Number(/kill_timeout = (\d+)/.exec(platforms)![1])]
  expect(workers).toHaveLength(limits.length)
  for (const [at, words] of workers.entries()) {
    const { options } = await parse(words)
    expect(limits[at]! - secondsOf(options.drain!)).toBeGreaterThanOrEqual(10)
  }
})

test('the containers set only environment variables that the command line reads', () => {
  const names = [
    ...services.filter(([, { build }]) => build).flatMap(([, { environment = {} }]) => Object.keys(environment)),
    ...containers.flatMap(({ env }) => env.map(({ name }) => name)),
    ...argumentsOf('ENV').flatMap((rest) => [...rest.matchAll(/(?:^| )([A-Z_]+)=/g)].map(([, name]) => name!)),
  ]
  expect(names).toContain('DATABASE_URL')
  expect(names).toContain('HOLDFAST_METRICS_PORT')
  expect(names.filter((name) => !variables.has(name) && !['NODE_ENV', 'PATH'].includes(name))).toEqual([])
})

describe('the Dockerfile', () => {
  test('the image runs holdfast without a shell, without npm and not as root', () => {
    expect(argumentsOf('ENTRYPOINT')).toEqual(['["holdfast"]'])
    expect(argumentsOf('USER')).toEqual(['node'])
    const last = instructions.slice(instructions.findLastIndex(([name]) => name === 'FROM'))
    expect(last.filter(([name]) => name === 'RUN').map(([, rest]) => rest)).toEqual([expect.stringMatching(/^rm -rf /)])
  })

  // Otherwise, COPY would replace the installed packages by those of the host.
  test('the packages of the host do not enter the image', () => {
    expect(read('docker/.dockerignore').split('\n')).toEqual(expect.arrayContaining(['node_modules', 'dist', '.git']))
  })

  test('each stage starts from a known stage or from the same image of Node.js', () => {
    const stages = argumentsOf('FROM').map((rest) => /^(\S+)(?: AS (\w+))?$/.exec(rest)!.slice(1))
    const names = stages.map(([, name]) => name)
    for (const [from] of stages) expect(['node:24-slim', ...names]).toContain(from)
    for (const rest of argumentsOf('COPY')) {
      const [, from] = /--from=(\w+)/.exec(rest) ?? []
      if (from) expect(names).toContain(from)
    }
  })

  test('the health check reads the port on which the image serves metrics', () => {
    const port = /HOLDFAST_METRICS_PORT=(\d+)/.exec(argumentsOf('ENV')[0]!)![1]!
    expect(argumentsOf('EXPOSE')).toEqual([port])
    const [check] = argumentsOf('HEALTHCHECK')
    expect(check).toContain(`http://127.0.0.1:${port}/health/ready`)
    const words = JSON.parse(check!.slice(check!.indexOf('['))) as string[]
    expect(words[0]).toBe('node')
    expect(() => new Function(words[2]!)).not.toThrow()
  })
})

describe('compose.yml', () => {
  test('services and volumes that other services use exist', () => {
    for (const [, { depends_on = {}, volumes = [] }] of services) {
      for (const name of Object.keys(depends_on)) expect(Object.keys(compose.services)).toContain(name)
      for (const volume of volumes) expect(Object.keys(compose.volumes)).toContain(volume.split(':')[0])
    }
  })

  test('Docker kills a worker at least 10 s after its drain has ended', async () => {
    const { command, stop_grace_period: grace } = compose.services.worker!
    const { options } = await parse(command!)
    expect(secondsOf(grace!) - secondsOf(options.drain!)).toBeGreaterThanOrEqual(10)
  })

  test('only workers use the health check of the image', () => {
    for (const [name, { build, healthcheck }] of services) {
      if (build && name !== 'worker') expect(healthcheck, name).toBeDefined()
    }
  })
})

describe('the Kubernetes manifests', () => {
  test('selectors match the labels of a deployment, and ports exist', () => {
    const labels = deployments.map(({ template }) => template.metadata.labels)
    for (const manifest of manifests) {
      const { selector } = manifest.spec
      const wanted = 'matchLabels' in selector ? (selector.matchLabels as Labels) : (selector as Labels)
      const at = labels.findIndex((found) => Object.entries(wanted).every(([key, value]) => found[key] === value))
      expect(at, manifest.kind).toBeGreaterThanOrEqual(0)
      if (manifest.kind !== 'Service') continue
      const ports = deployments[at]!.template.spec.containers.flatMap(({ ports }) => ports.map(({ name }) => name))
      for (const { targetPort } of manifest.spec.ports) expect(ports).toContain(targetPort)
    }
  })

  test('Kubernetes kills a worker at least 10 s after its drain has ended', async () => {
    const { terminationGracePeriodSeconds: grace, containers } = deployments
      .map(({ template }) => template.spec)
      .find(({ containers }) => containers[0]!.name === 'worker')!
    const { options } = await parse(containers[0]!.args)
    expect(grace! - secondsOf(options.drain!)).toBeGreaterThanOrEqual(10)
  })

  test('probes use the ports and the paths that the command serves', async () => {
    for (const { args, ports, readinessProbe, livenessProbe } of containers) {
      const { options } = await parse(args)
      expect(ports.map(({ containerPort }) => String(containerPort))).toEqual([options.metricsPort ?? options.port])
      for (const { httpGet, exec } of [readinessProbe, livenessProbe ?? readinessProbe]) {
        if (httpGet) {
          expect(httpGet.port).toBe(ports[0]!.name)
          expect(['/health/ready', '/health/live']).toContain(httpGet.path)
        } else expect(exec!.command.join(' ')).toContain(`http://127.0.0.1:${options.port}/`)
      }
    }
  })

  test('no container runs as root', () => {
    for (const { template } of deployments) expect(template.spec.securityContext.runAsNonRoot).toBe(true)
  })
})
