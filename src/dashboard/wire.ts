// Types of the messages between the server and the page. The page imports only these types, and no server code.
import type { ActName, Acts, Consequence, Outcome as FullOutcome, ParsedParams } from '../acts/index.js'
import type { ViewName, Views } from './views/index.js'

export type { ActName, Consequence, ViewName }

/** Type of a value that was serialized to JSON and parsed again. */
export type Wire<T> = unknown extends T
  ? T
  : T extends Date
    ? string
    : T extends string | number | boolean | null | undefined
      ? T
      : { readonly [Name in keyof T]: Wire<T[Name]> }

export type ViewData<Name extends ViewName> = Wire<Awaited<ReturnType<Views[Name]['read']>>>

export type ParamsOf<Name extends ViewName> = Wire<ParsedParams<Views[Name]['needs'], Views[Name]['params']>>

export type ActParamsOf<Name extends ActName> = Wire<ParsedParams<Acts[Name]['needs'], Acts[Name]['params']>>

export interface ErrorBody {
  readonly code: string
  readonly message: string
  readonly hint: string | null
}

/** Body of every response with a status other than 200. */
export interface ErrorResponse {
  readonly error: ErrorBody
}

/** `GET api/me`, or `GET api/me?database=NAME` */
export interface Me {
  /** Names of the databases that the visitor may see. Empty if the dashboard has only one database, without a name. */
  readonly databases: readonly string[]
  /** Name of the database that the other properties describe. Null if `databases` is empty. */
  readonly databaseName: string | null
  readonly visitor: string
  /** Acts that the visitor may run. Empty if the dashboard is read-only. */
  readonly rights: readonly ActName[]
  readonly readOnly: boolean
  /** Version of Holdfast. */
  readonly version: string
  readonly schema: string
  /** Version of PostgreSQL. Null while the database is unreachable. */
  readonly server: string | null
  /** Address of the database, without a password. */
  readonly database: string
  readonly namespaces: readonly string[]
  /** The database clock's time. Null while the database is unreachable. */
  readonly now: string | null
  /** Error from the attempt to read from the database. Null if the database is reachable. */
  readonly error: ErrorBody | null
}

/**
 * Response to `GET api/view/NAME?params`, and data of `event: view`. `view` is `NAME?params` as the page sent it. With
 * several databases, each NAME of a view or an act is `DATABASE:NAME`.
 */
export interface ViewSnapshot<Name extends ViewName = ViewName> {
  readonly view: string
  /** The snapshot's time, according to the database clock. Ages and remaining times are relative to this time. */
  readonly at: string
  readonly data: ViewData<Name>
}

/** Data of `event: failure`. The view has no newer data until the next `event: view`. */
export interface ViewFailure {
  readonly view: string
  readonly error: ErrorBody
}

/** `GET api/sql/NAME?params` */
export interface StatementList {
  readonly statements: readonly { readonly purpose: string; readonly text: string }[]
}

/** `POST api/act/NAME` */
export interface ActRequest<Name extends ActName = ActName> {
  readonly params: ActParamsOf<Name>
  /** Whether to return only the consequence, without running the act. */
  readonly preview?: boolean
  /** Reason that the audit log records. */
  readonly reason?: string
}

export interface PreviewResponse {
  readonly consequence: Consequence
}

/** Outcome of an act, without the machine-readable result. */
export type Outcome = Omit<FullOutcome, 'result'>

export interface ActResponse {
  readonly outcome: Outcome
}
