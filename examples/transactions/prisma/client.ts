// Output of `prisma generate` (7.10) for schema.prisma, so that the example runs without this command. In your program, it is in `generated/`.
import { readFileSync } from 'node:fs'
import { getPrismaClient, type SqlDriverAdapterFactory } from '@prisma/client/runtime/client'

const compiler = '@prisma/client/runtime/query_compiler_fast_bg.postgresql'

const generated = {
  previewFeatures: [],
  clientVersion: '7.10.0',
  engineVersion: '7.10.0',
  activeProvider: 'postgresql',
  inlineSchema: readFileSync(new URL('./schema.prisma', import.meta.url), 'utf8'),
  runtimeDataModel: {
    models: {
      customer_order: {
        fields: [
          { name: 'id', kind: 'scalar', type: 'Int' },
          { name: 'customer', kind: 'scalar', type: 'String' },
        ],
        dbName: null,
        schema: null,
      },
    },
    enums: {},
    types: {},
  },
  parameterizationSchema: {
    strings: JSON.parse(
      '["where","customer_order.findUnique","customer_order.findUniqueOrThrow","orderBy","cursor","customer_order.findFirst","customer_order.findFirstOrThrow","customer_order.findMany","data","customer_order.createOne","customer_order.createMany","customer_order.createManyAndReturn","customer_order.updateOne","customer_order.updateMany","customer_order.updateManyAndReturn","create","update","customer_order.upsertOne","customer_order.deleteOne","customer_order.deleteMany","having","_count","_avg","_sum","_min","_max","customer_order.groupBy","customer_order.aggregate","AND","OR","NOT","id","customer","equals","in","notIn","lt","lte","gt","gte","contains","startsWith","endsWith","not","set","increment","decrement","multiply","divide"]',
    ),
    graph:
      'KwsQBRwAACIAMB0AAAQAEB4AACIAMB8CAAAAASABACQAIQEAAAABACABAAAAAQAgBRwAACIAMB0AAAQAEB4AACIAMB8CACMAISABACQAIQADAAAABAAgAwAABQAwBAAAAQAgAwAAAAQAIAMAAAUAMAQAAAEAIAMAAAAEACADAAAFADAEAAABACACHwIAAAABIAEAAAABAQgAAAkAIAIfAgAAAAEgAQAAAAEBCAAACwAwAQgAAAsAMAIfAgArACEgAQAqACECAAAAAQAgCAAADgAgAh8CACsAISABACoAIQIAAAAEACAIAAAQACACAAAABAAgCAAAEAAgAwAAAAEAIA8AAAkAIBAAAA4AIAEAAAABACABAAAABAAgBRUAACUAIBYAACYAIBcAACkAIBgAACgAIBkAACcAIAUcAAAaADAdAAAXABAeAAAaADAfAgAbACEgAQAcACEDAAAABAAgAwAAFgAwFAAAFwAgAwAAAAQAIAMAAAUAMAQAAAEAIAUcAAAaADAdAAAXABAeAAAaADAfAgAbACEgAQAcACENFQAAHgAgFgAAIQAgFwAAHgAgGAAAHgAgGQAAHgAgIQIAAAABIgIAAAAEIwIAAAAEJAIAAAABJQIAAAABJgIAAAABJwIAAAABKwIAIAAhDhUAAB4AIBgAAB8AIBkAAB8AICEBAAAAASIBAAAABCMBAAAABCQBAAAAASUBAAAAASYBAAAAAScBAAAAASgBAAAAASkBAAAAASoBAAAAASsBAB0AIQ4VAAAeACAYAAAfACAZAAAfACAhAQAAAAEiAQAAAAQjAQAAAAQkAQAAAAElAQAAAAEmAQAAAAEnAQAAAAEoAQAAAAEpAQAAAAEqAQAAAAErAQAdACEIIQIAAAABIgIAAAAEIwIAAAAEJAIAAAABJQIAAAABJgIAAAABJwIAAAABKwIAHgAhCyEBAAAAASIBAAAABCMBAAAABCQBAAAAASUBAAAAASYBAAAAAScBAAAAASgBAAAAASkBAAAAASoBAAAAASsBAB8AIQ0VAAAeACAWAAAhACAXAAAeACAYAAAeACAZAAAeACAhAgAAAAEiAgAAAAQjAgAAAAQkAgAAAAElAgAAAAEmAgAAAAEnAgAAAAErAgAgACEIIQgAAAABIggAAAAEIwgAAAAEJAgAAAABJQgAAAABJggAAAABJwgAAAABKwgAIQAhBRwAACIAMB0AAAQAEB4AACIAMB8CACMAISABACQAIQghAgAAAAEiAgAAAAQjAgAAAAQkAgAAAAElAgAAAAEmAgAAAAEnAgAAAAErAgAeACELIQEAAAABIgEAAAAEIwEAAAAEJAEAAAABJQEAAAABJgEAAAABJwEAAAABKAEAAAABKQEAAAABKgEAAAABKwEAHwAhAAAAAAABLAEAAAABBSwCAAAAAS0CAAAAAS4CAAAAAS8CAAAAATACAAAAAQAAAAAFFQAGFgAHFwAIGAAJGQAKAAAAAAAFFQAGFgAHFwAIGAAJGQAKAQIBAgMBBQYBBgcBBwgBCQoBCgwCCw0DDA8BDRECDhIEERMBEhQBExUCGhgFGxkL',
  },
  compilerWasm: {
    getRuntime: () => import(`${compiler}.mjs`),
    async getQueryCompilerWasmModule() {
      const { wasm } = await import(`${compiler}.wasm-base64.mjs`)
      // Node.js's types do not contain WebAssembly.
      const { WebAssembly } = globalThis as unknown as { WebAssembly: { Module: new (bytes: Uint8Array) => object } }
      return new WebAssembly.Module(Buffer.from(wasm, 'base64'))
    },
    importName: './query_compiler_fast_bg.js',
  },
}

export interface PrismaClient {
  customer_order: { create(what: { data: { customer: string } }): Promise<{ id: number; customer: string }> }
  $executeRawUnsafe(text: string, ...values: unknown[]): Promise<number>
  $queryRawUnsafe<Rows = unknown>(text: string, ...values: unknown[]): Promise<Rows>
  $transaction<Result>(work: (tx: PrismaClient) => Promise<Result>): Promise<Result>
  $disconnect(): Promise<void>
}

type Configuration = Parameters<typeof getPrismaClient>[0]
export const PrismaClient = getPrismaClient(generated as unknown as Configuration) as unknown as new (options: {
  adapter: SqlDriverAdapterFactory
}) => PrismaClient
