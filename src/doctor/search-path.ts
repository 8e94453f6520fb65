import { quoteIdentifier } from '../postgres/index.js'
import type { DoctorContext } from './doctor-context.js'
import { type Finding, finding, formatCount, formatList } from './finding.js'

interface SearchedSchema {
  schema: string
  /** Roles that can create objects in it, except superusers and owners. An empty name means all roles. */
  creators: string[]
  is_before_catalog: boolean
}

/**
 * Checks the search path of pool sessions. A role that can create objects in one of these schemas can add a function or
 * an operator that matches a call better than the intended one. It then runs with the rights of the caller. Functions
 * of Holdfast and its anchors have a fixed search path. Statements on a pool, of Holdfast and of the application, use
 * the path of the session.
 */
export async function searchPath(context: DoctorContext): Promise<Finding[]> {
  const searched = await context.query<SearchedSchema>('untrusted_schemas', [
    context.quotedSchema,
    await context.searchedSchemas(),
  ])
  return searched.map(({ schema, creators, is_before_catalog }) => {
    const isPublic = creators.includes('')
    const who = isPublic ? 'every role' : formatList(creators)
    const grantees = isPublic ? 'public' : creators.map(quoteIdentifier).join(', ')
    return finding({
      id: 'search-path',
      severity: 'risky',
      subject: schema,
      text: is_before_catalog
        ? `The schema ${schema} is searched before pg_catalog`
        : `Pool sessions search the schema ${schema}, and ${who} can create objects in it`,
      why: 'A function or operator created there can replace the intended one and run with the rights of the caller.',
      facts: { schema, makers: isPublic ? 'everybody' : formatCount(creators.length, 'role') },
      fix: is_before_catalog
        ? { text: 'Remove pg_catalog from the setting search_path. PostgreSQL then searches pg_catalog first.' }
        : {
            text: 'Revoke the right, or remove the schema from the setting search_path:',
            sql: [`revoke create on schema ${quoteIdentifier(schema)} from ${grantees}`],
          },
    })
  })
}
