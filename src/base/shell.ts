/** Quotes a word for a shell, if necessary. */
export function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}

/** A command's namespace and schema. */
export interface CommandScope {
  readonly namespace?: string | null | undefined
  readonly schema?: string | undefined
}

/** Returns a command that people can copy into a shell, such as `holdfast lock show --namespace billing 'a b'`. */
export function commandLine(words: string, { namespace, schema = 'holdfast' }: CommandScope, name?: string): string {
  return [
    `holdfast ${words}`,
    ...(namespace ? [`--namespace ${shellQuote(namespace)}`] : []),
    ...(schema === 'holdfast' ? [] : [`--schema ${shellQuote(schema)}`]),
    // A name that starts with a dash would be parsed as an option.
    ...(name?.startsWith('-') ? ['--'] : []),
    ...(name === undefined ? [] : [shellQuote(name)]),
  ].join(' ')
}
