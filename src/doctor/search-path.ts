import { quoteIdentifier } from '../postgres/index.js'
import type { DoctorContext } from './doctor-context.js'
import { type Finding, finding, formatCount, formatList } from './finding.js'

interface SearchedSchema {
  schema: string
  /** Who may create in it, beside those who rule the database anyway; empty for everybody. */
  creators: string[]
  is_before_catalog: boolean
}

/**
 * Whoever may create in a schema that is searched can make a function or an operator that fits a call better than the one that is
 * meant, and it runs with the rights of whoever calls. The functions of Holdfast, and its own sessions, are pinned to pg_catalog;
 * statements that run on a pool, Holdfast's and the application's alike, look where the pool's sessions look.
 */
export async function searchPath(context: DoctorContext): Promise<Finding[]> {
  const searched = await context.query<SearchedSchema>('untrusted_schemas', [
    context.quotedSchema,
    await context.searchedSchemas(),
  ])
  return searched.map(({ schema, creators, is_before_catalog }) => {
    const isEverybody = creators.includes('')
    const who = isEverybody ? 'everybody' : formatList(creators)
    const grantees = isEverybody ? 'public' : creators.map(quoteIdentifier).join(', ')
    return finding({
      id: 'search-path',
      severity: 'risky',
      subject: schema,
      text: is_before_catalog
        ? `The schema ${schema} is searched before pg_catalog`
        : `The schema ${schema} is searched by sessions of pools, and ${who} may create in it`,
      why: 'A function or an operator made there can be called instead of the one that is meant, with the rights of whoever calls.',
      facts: { schema, makers: isEverybody ? 'everybody' : formatCount(creators.length, 'role') },
      fix: is_before_catalog
        ? { text: 'Take pg_catalog out of the setting search_path: it is searched first where it is not named.' }
        : {
            text: 'Take away the right, or take the schema out of the setting search_path:',
            sql: [`revoke create on schema ${quoteIdentifier(schema)} from ${grantees}`],
          },
    })
  })
}
