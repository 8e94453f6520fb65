import { type ParamKinds, type ParsedParams, paramSchema, readParams } from '../../acts/index.js'
import { UsageError } from '../../base/index.js'
import type { McpContext } from './context.js'

/** A tool as `tools/list` describes it. */
export interface ToolDescription {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: object
  readonly annotations: object
}

export interface Tool extends ToolDescription {
  /** Parameters that make the document smaller, for the error about a document that is too large. */
  readonly narrowedBy: readonly string[]
  /** Returns the document to send. `given` contains the arguments as received. */
  call(context: McpContext, given: unknown): Promise<unknown>
}

/** Descriptions of parameters that have the same meaning in every tool. */
const paramTexts: Readonly<Record<string, string>> = {
  namespace: 'Namespace. Omit it unless the user names one.',
  limit: 'Maximum number of rows per list.',
}

interface ReadToolDefinition<Needs extends ParamKinds, Params extends ParamKinds> {
  readonly title: string
  readonly description: string
  /** Required parameters. */
  readonly needs?: Needs
  /** Optional parameters. */
  readonly params?: Params
  /** Descriptions of the parameters, by name. */
  readonly texts?: { readonly [Name in keyof Needs | keyof Params]?: string }
  read(context: McpContext, params: ParsedParams<Needs, Params>): Promise<unknown>
}

/** Defines a tool that reads. */
export function readTool<
  const Needs extends ParamKinds = Record<never, never>,
  const Params extends ParamKinds = Record<never, never>,
>(name: string, definition: ReadToolDefinition<Needs, Params>): Tool {
  const { title, description, needs = {} as Needs, params = {} as Params, texts = {}, read } = definition
  return {
    name,
    title,
    description,
    inputSchema: inputSchema(needs, params, texts as Record<string, string>),
    annotations: { readOnlyHint: true, openWorldHint: false },
    narrowedBy: Object.keys(params),
    call: (context, given) => read(context, readParams(`the tool ${name}`, argumentsOf(given), { needs, params })),
  }
}

/** Returns the JSON schema of a tool's arguments. */
export function inputSchema(needs: ParamKinds, params: ParamKinds, texts: Readonly<Record<string, string>>): object {
  const properties = Object.entries({ ...needs, ...params }).map(([name, kind]) => {
    const description = texts[name] ?? paramTexts[name]
    return [name, { ...paramSchema(kind), ...(description === undefined ? {} : { description }) }]
  })
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    ...(Object.keys(needs).length > 0 ? { required: Object.keys(needs) } : {}),
    additionalProperties: false,
  }
}

export function argumentsOf(given: unknown): object {
  if (given === undefined) return {}
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return given
  throw new UsageError('Expected the arguments of a tool to be an object')
}
