import { quoteIdentifier } from '../postgres/index.js'
import type { DoctorContext } from './doctor-context.js'
import { type Finding, finding, formatCount, formatList } from './finding.js'

interface SearchedSchema {
  schema: string
  /** Roles that can create objects in the schema, except superusers and owners. An empty name means all roles. */
  creators: string[]
  is_before_catalog: boolean
}

/**
 * Checks pool sessions' search path. A role that can create objects in one of these schemas can add a function or
 * an operator that matches a call better than the intended one. That function or operator then runs with the rights of
 * the role that calls it. Holdfast's functions and anchors have a fixed search path. All statements on a pool, both
 * Holdfast's and the application's, use the session's search path.
 */
export async function searchPath(context: DoctorContext): Promise<Finding[]> {
  const schemas = await context.searchedSchemas()
  const searched = await context.query<SearchedSchema>('untrusted_schemas', [context.quotedSchema, schemas])
  const own = schemas.includes(context.schema) ? [ownSchema(context)] : []
  const untrusted = searched.map(({ schema, creators, is_before_catalog }) => {
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
      why: "A function or operator that is created in this schema can replace the intended one and run with the caller's rights.",
      facts: { schema, makers: isPublic ? 'everybody' : formatCount(creators.length, 'role') },
      fix: is_before_catalog
        ? { text: 'Remove pg_catalog from the search_path setting. PostgreSQL then searches pg_catalog first.' }
        : {
            text: 'Revoke the right, or remove the schema from the search_path setting:',
            sql: [`revoke create on schema ${quoteIdentifier(schema)} from ${grantees}`],
          },
    })
  })
  return [...own, ...untrusted]
}

/** Reports that the session searches Holdfast's schema: a program that creates a table without a schema creates it there. */
function ownSchema({ schema }: DoctorContext): Finding {
  return finding({
    id: 'search-path',
    severity: 'risky',
    subject: schema,
    text: `Pool sessions search Holdfast's schema ${schema}`,
    why: 'A table that your program creates without a schema is then created among the tables of Holdfast, and statements can change the tables of Holdfast by mistake.',
    facts: { schema },
    fix: {
      text: 'Connect as a role that does not have the name of the schema, or remove the schema from the search_path setting. The default search_path contains a schema with the name of the role.',
    },
  })
}
