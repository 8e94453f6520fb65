// What goes between the server and the page, as types only: the page imports them and none of the code.
import type { ActName, Acts, Consequence, Outcome as FullOutcome, ParamsRead } from '../acts/index.js'
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
export type Says<Name extends ViewName> = Wire<Awaited<ReturnType<Views[Name]['read']>>>

/** The parameters of a view. */
export type ParamsOf<Name extends ViewName> = Wire<ParamsRead<Views[Name]['needs'], Views[Name]['params']>>

/** The parameters of an act. */
export type ActParamsOf<Name extends ActName> = Wire<ParamsRead<Acts[Name]['needs'], Acts[Name]['params']>>

/** What went wrong, as it is told everywhere. */
export interface ErrorSaid {
  readonly code: string
  readonly message: string
  readonly hint: string | null
}

/** Of every answer that is not 200. */
export interface Refused {
  readonly error: ErrorSaid
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
  readonly trouble: ErrorSaid | null
}

/** `GET api/view/NAME?params`; and the data of `event: view`, whose `view` is `NAME?params` as it was asked for. */
export interface Picture<Name extends ViewName = ViewName> {
  readonly view: string
  /** By the database's clock: from here ages and times left count. */
  readonly at: string
  readonly data: Says<Name>
}

/** The data of `event: trouble`: nothing new until this is over. */
export interface TroubleSaid {
  readonly view: string
  readonly error: ErrorSaid
}

/** `GET api/sql/NAME?params` */
export interface SqlSaid {
  readonly statements: readonly { readonly says: string; readonly text: string }[]
}

/** `POST api/act/NAME` */
export interface ActAsked<Name extends ActName = ActName> {
  readonly params: ActParamsOf<Name>
  /** Only tells what would happen. */
  readonly preview?: boolean
  /** Why, for the audit. */
  readonly reason?: string
}

/** The answer to a preview. */
export interface Previewed {
  readonly consequence: Consequence
}

/** The result of an act, without what only programs read. */
export type Outcome = Omit<FullOutcome, 'result'>

/** The answer to the act. */
export interface Acted {
  readonly outcome: Outcome
}
