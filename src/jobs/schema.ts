/** Schema of any library that implements standardschema.dev (Zod, Valibot, ArkType …). */
export interface Schema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => Verdict<Output> | Promise<Verdict<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

/** Result of a validation, which is either the value or a list of issues. */
export type Verdict<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly unknown[] | undefined }[] }
