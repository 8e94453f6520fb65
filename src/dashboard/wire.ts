// What goes between the server and the page, as types only: the page imports them and none of the code.
import type { ActName, Acts, Consequence, Outcome as FullOutcome, ParsedParams } from '../acts/index.js'
import type { ViewName, Views } from './views/index.js'

export type { ActName, Consequence, ViewName }

/** What JSON makes of a value. */
export type Wire<T> = unknown extends T
  ? T
  : T extends Date
    ? string
    : T extends string | number | boolean | null | undefined
      ? T
      : { readonly [Name in keyof T]: Wire<T[Name]> }

/** What a view says. */
export type ViewData<Name extends ViewName> = Wire<Awaited<ReturnType<Views[Name]['read']>>>

/** The parameters of a view. */
export type ParamsOf<Name extends ViewName> = Wire<ParsedParams<Views[Name]['needs'], Views[Name]['params']>>

/** The parameters of an act. */
export type ActParamsOf<Name extends ActName> = Wire<ParsedParams<Acts[Name]['needs'], Acts[Name]['params']>>

/** What went wrong, as it is told everywhere. */
export interface ErrorBody {
  readonly code: string
  readonly message: string
  readonly hint: string | null
}

/** Of every answer that is not 200. */
export interface ErrorResponse {
  readonly error: ErrorBody
}

/** `GET api/me` */
export interface Me {
  readonly visitor: string
  /** What this visitor may do; nothing where the dashboard is read-only. */
  readonly rights: readonly ActName[]
  readonly readOnly: boolean
  /** Of Holdfast. */
  readonly version: string
  readonly schema: string
  /** The version of PostgreSQL; null while the database cannot be asked. */
  readonly server: string | null
  /** Where the database is, for people. */
  readonly database: string
  readonly namespaces: readonly string[]
  /** By the database's clock; null while it cannot be asked. */
  readonly now: string | null
  /** Why the database cannot be asked. */
  readonly error: ErrorBody | null
}

/** `GET api/view/NAME?params`; and the data of `event: view`, whose `view` is `NAME?params` as it was asked for. */
export interface ViewSnapshot<Name extends ViewName = ViewName> {
  readonly view: string
  /** By the database's clock: from here ages and times left count. */
  readonly at: string
  readonly data: ViewData<Name>
}

/** The data of `event: failure`: nothing new until this is over. */
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
  /** Only tells what would happen. */
  readonly preview?: boolean
  /** Why, for the audit. */
  readonly reason?: string
}

/** The answer to a preview. */
export interface PreviewResponse {
  readonly consequence: Consequence
}

/** The result of an act, without what only programs read. */
export type Outcome = Omit<FullOutcome, 'result'>

/** The answer to the act. */
export interface ActResponse {
  readonly outcome: Outcome
}
