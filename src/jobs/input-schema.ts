import { type JsonSchema, memberOf } from '../base/index.js'
import type { JobDefinition } from './definition.js'

const maxBytes = 50_000

/**
 * Returns the JSON schema of a job's input. The dashboard and the command line use this schema to check an input that a
 * person enters. Undefined if the definition's schema cannot describe itself (see "Standard JSON Schema"), or if its
 * description is too large. The worker validates each input with the definition's own schema in any case.
 */
export function inputSchemaOf({ schema }: JobDefinition): JsonSchema | undefined {
  const converter = memberOf(memberOf(schema, '~standard'), 'jsonSchema') as
    | { readonly input?: (options: { readonly target: string }) => unknown }
    | undefined
  try {
    const made = converter?.input?.({ target: 'draft-2020-12' })
    return Buffer.byteLength(JSON.stringify(made) ?? '') > maxBytes ? undefined : made
  } catch {
    // The library cannot express the schema, for example because the schema contains a transformation.
    return undefined
  }
}
