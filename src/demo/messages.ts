/** Options that an instance receives when it starts. */
export interface InstanceOptions {
  readonly name: string
  readonly url: string
  readonly directUrl: string | undefined
  /** Schema of Holdfast. */
  readonly schema: string
  /** Schema that contains the company's tables. */
  readonly tables: string
  /** Whether the instance runs the company that does not use Holdfast. */
  readonly isWithout: boolean
  readonly expiryMs: number
}

/** Messages from an instance to the demo, which uses them only for its output. */
export type InstanceMessage =
  | { readonly type: 'open'; readonly port: number }
  | { readonly type: 'work-started'; readonly kind: string; readonly subject: string }
  | { readonly type: 'work-ended'; readonly kind: string; readonly subject: string; readonly isDone: boolean }
  | { readonly type: 'trouble'; readonly error: string }
