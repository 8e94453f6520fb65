/** A word as a shell takes it. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}

/** Where a command looks, as far as that is not clear from where it is typed. */
export interface Where {
  readonly namespace?: string | null | undefined
  readonly schema?: string | undefined
}

/** A command of ours, perhaps about a name, that can be copied into a shell: `holdfast lock show --namespace billing 'a b'`. */
export function commandFor(words: string, { namespace, schema = 'holdfast' }: Where, name?: string): string {
  return [
    `holdfast ${words}`,
    ...(namespace ? [`--namespace ${shellWord(namespace)}`] : []),
    ...(schema === 'holdfast' ? [] : [`--schema ${shellWord(schema)}`]),
    // What begins so would be taken for an option.
    ...(name?.startsWith('-') ? ['--'] : []),
    ...(name === undefined ? [] : [shellWord(name)]),
  ].join(' ')
}
