/** A word as a shell takes it. */
export function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}

/** Where a command looks, as far as that is not clear from where it is typed. */
export interface CommandScope {
  readonly namespace?: string | null | undefined
  readonly schema?: string | undefined
}

/** A command of ours, perhaps about a name, that can be copied into a shell: `holdfast lock show --namespace billing 'a b'`. */
export function commandLine(words: string, { namespace, schema = 'holdfast' }: CommandScope, name?: string): string {
  return [
    `holdfast ${words}`,
    ...(namespace ? [`--namespace ${shellQuote(namespace)}`] : []),
    ...(schema === 'holdfast' ? [] : [`--schema ${shellQuote(schema)}`]),
    // What begins so would be taken for an option.
    ...(name?.startsWith('-') ? ['--'] : []),
    ...(name === undefined ? [] : [shellQuote(name)]),
  ].join(' ')
}
