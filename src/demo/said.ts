/** What the demo tells an instance at its start. */
export interface Orders {
  readonly name: string
  readonly url: string
  readonly directUrl: string | undefined
  /** Of Holdfast, and of the company. */
  readonly schema: string
  readonly tables: string
  readonly expiryMs: number
}

/** What an instance tells the demo, so that there is a story to be told. */
export type Said =
  | { readonly say: 'open'; readonly port: number }
  | { readonly say: 'begins'; readonly kind: string; readonly which: string }
  | { readonly say: 'ends'; readonly kind: string; readonly which: string; readonly isDone: boolean }
  | { readonly say: 'trouble'; readonly error: string }
