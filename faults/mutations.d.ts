export const mutations: readonly {
  readonly name: string
  readonly edits: readonly (readonly [file: string, from: string | RegExp, to: string])[]
}[]
