import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { errorLine, HoldfastError, memberOf, toRecordedError, UsageError } from '../../base/index.js'

export interface ExportedValue {
  readonly file: string
  readonly value: unknown
}

/** Imports the files and returns their exports. Paths are relative to the working directory. */
export async function loadExports(files: readonly string[]): Promise<ExportedValue[]> {
  for (const file of files) {
    if (!existsSync(file)) throw new UsageError(`There is no file ${JSON.stringify(file)} in ${process.cwd()}`)
  }
  const exported: ExportedValue[] = []
  // The files are imported one after another, so that output and errors can be attributed to a file.
  for (const file of files) {
    const values = valuesOf(await load(file))
    exported.push(...[...new Set(values)].map((value) => ({ file, value })))
  }
  return exported
}

/** Returns exports, elements of exported arrays, and members of `module.exports` that Node.js does not detect. */
function valuesOf(module: Record<string, unknown>): unknown[] {
  const members = isPlainObject(module.default) ? Object.values(module.default) : []
  return [...Object.values(module), ...members].flatMap((value) => (Array.isArray(value) ? value.flat() : [value]))
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}

async function load(file: string): Promise<Record<string, unknown>> {
  try {
    return await import(pathToFileURL(resolve(file)).href)
  } catch (error) {
    const code = memberOf(error, 'code')
    const isTypeScript = /\.[cm]?ts$/.test(file)
    throw isTypeScript && code === 'ERR_UNKNOWN_FILE_EXTENSION'
      ? new TypeScriptError(file)
      : new ImportError(file, error)
  }
}

/** Thrown if `holdfast work` cannot import a TypeScript file, because this version of Node.js does not support TypeScript files. */
export class TypeScriptError extends HoldfastError {
  constructor(file: string) {
    super(`${file} cannot be imported: Node.js ${process.version} does not support TypeScript files`, {
      code: 'IMPORT_FAILED',
      retryable: false,
      hint: 'Use Node.js 22.18 or later, set NODE_OPTIONS="--import tsx", or pass the compiled file.',
    })
  }
}

/** Thrown if `holdfast work` cannot import a file, because the import threw an error. */
export class ImportError extends HoldfastError {
  constructor(file: string, cause: unknown) {
    const { stack = errorLine(cause) } = toRecordedError(cause)
    // The stack frames after this point show only how Node.js imported the file.
    const [userStack] = stack.split(/\n\s+at .*node:internal\//)
    super(`${file} cannot be imported: ${userStack}`, { code: 'IMPORT_FAILED', retryable: false, cause })
  }
}
