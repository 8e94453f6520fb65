import { quoteIdentifier } from '../postgres/index.js'
import { counted, type Finding, finding, listed } from './finding.js'
import type { Patient } from './patient.js'

interface Searched {
  schema: string
  /** Who may create in it, beside those who rule the database anyway; empty for everybody. */
  makers: string[]
  is_before_catalog: boolean
}

/**
 * Whoever may create in a schema that is searched can make a function or an operator that fits a call better than the one that is
 * meant, and it runs with the rights of whoever calls. The functions of Holdfast, and its own sessions, are pinned to pg_catalog;
 * statements that run on a pool, Holdfast's and the application's alike, look where the pool's sessions look.
 */
export async function searchPath(patient: Patient): Promise<Finding[]> {
  const searched = await patient.ask<Searched>('searched', [patient.quotedSchema, await patient.searchedSchemas()])
  return searched.map(({ schema, makers, is_before_catalog }) => {
    const isEverybody = makers.includes('')
    const who = isEverybody ? 'everybody' : listed(makers)
    const grantees = isEverybody ? 'public' : makers.map(quoteIdentifier).join(', ')
    return finding({
      id: 'search-path',
      severity: 'risky',
      subject: schema,
      seen: is_before_catalog
        ? `The schema ${schema} is searched before pg_catalog`
        : `The schema ${schema} is searched by sessions of pools, and ${who} may create in it`,
      why: 'A function or an operator made there can be called instead of the one that is meant, with the rights of whoever calls.',
      facts: { schema, makers: isEverybody ? 'everybody' : counted(makers.length, 'role') },
      mend: is_before_catalog
        ? { what: 'Take pg_catalog out of the setting search_path: it is searched first where it is not named.' }
        : {
            what: 'Take away the right, or take the schema out of the setting search_path:',
            sql: [`revoke create on schema ${quoteIdentifier(schema)} from ${grantees}`],
          },
    })
  })
}
