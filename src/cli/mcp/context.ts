import { Audit, AuditedActs, Operator } from '../../acts/index.js'
import type { Holdfast } from '../../index.js'
import { Observer } from '../../observe/index.js'
import {
  type Connection,
  checkSchema,
  checkUrl,
  type Database,
  type Executor,
  type Reader,
  schemaState,
} from '../../postgres/index.js'
import { connect, withMembers } from '../connect.js'
import type { Settings } from '../settings.js'

const queryTimeoutMs = 15_000

/** Connections and settings that the tools share. The first call connects. */
export class McpContext {
  readonly observer: Observer
  readonly audit: Audit
  readonly acts: AuditedActs
  readonly database: Database
  /** Connection that bypasses a pooler, for the doctor. */
  readonly direct: Connection | undefined
  readonly schema: string
  /** Whether tools show the inputs, results and metas of jobs. */
  readonly showsPayloads: boolean
  /** Name in the audit log. */
  readonly actor: string
  readonly #namespace: string | undefined
  readonly #executor: Executor & Reader
  readonly #pool: ReturnType<typeof connect>['pool']

  constructor(settings: Settings) {
    const { pool, database, schema } = connect(settings)
    const directUrl = settings.text('directUrl')
    const executor: Executor & Reader = {
      query: (text, values) => database.query(text, values, queryTimeoutMs),
      read: (text, values) => database.read(text, values, queryTimeoutMs),
    }
    this.#pool = pool
    this.#executor = executor
    this.database = database
    this.direct = directUrl === undefined ? undefined : { connectionString: checkUrl(directUrl, '--direct-url') }
    this.schema = schema
    this.#namespace = settings.name('namespace')
    this.showsPayloads = settings.flag('payloads')
    this.actor = settings.text('actor') ?? 'mcp'
    this.observer = new Observer(executor, schema)
    this.audit = new Audit(executor, schema)
    const operator = new Operator(executor, schema)
    const errorLine = ({ name, message }: { readonly name: string; readonly message: string }) => `${name}: ${message}`
    this.acts = new AuditedActs(
      { observer: this.observer, operator, errorLine, asMember: (...given) => this.asMember(...given) },
      this.audit,
    )
  }

  /** Namespace for a list: the given namespace, the namespace in the settings, or else all namespaces. */
  listed({ namespace }: { readonly namespace?: string | undefined }): string | undefined {
    return namespace ?? this.#namespace
  }

  /** Namespace of a name: the given namespace, the namespace in the settings, or else the default namespace. */
  named(given: { readonly namespace?: string | undefined }): string {
    return this.listed(given) ?? 'default'
  }

  /** Rejects if Holdfast is not installed in the database, or if its version is incompatible. */
  async checkSchema(): Promise<void> {
    checkSchema(await schemaState({ query: this.#executor.read }, this.schema), this.schema)
  }

  /** Runs `work` with an instance that is open only during this call, so that the server is not a member of the fleet. */
  asMember<T>(namespace: string, work: (holdfast: Holdfast) => Promise<T>): Promise<T> {
    return withMembers(this.#pool, this.schema, (asMember) => asMember(namespace, work))
  }

  close(): Promise<void> {
    return this.database.close()
  }
}
