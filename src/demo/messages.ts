/** What the demo tells an instance at its start. */
export interface InstanceOptions {
  readonly name: string
  readonly url: string
  readonly directUrl: string | undefined
  /** Of Holdfast, and of the company. */
  readonly schema: string
  readonly tables: string
  readonly expiryMs: number
}

/** What an instance tells the demo, so that there is a story to be told. */
export type InstanceMessage =
  | { readonly type: 'open'; readonly port: number }
  | { readonly type: 'work-started'; readonly kind: string; readonly subject: string }
  | { readonly type: 'work-ended'; readonly kind: string; readonly subject: string; readonly isDone: boolean }
  | { readonly type: 'trouble'; readonly error: string }
