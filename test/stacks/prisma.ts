import { getPrismaClient } from '@prisma/client/runtime/client'

const compiler = '@prisma/client/runtime/query_compiler_fast_bg.postgresql'

/** Output of `prisma generate` for a schema with one model. The tests use only the methods that run SQL. */
const generated = {
  previewFeatures: [],
  clientVersion: '7.10.0',
  engineVersion: '7.10.0',
  activeProvider: 'postgresql',
  inlineSchema: 'datasource db {\n  provider = "postgresql"\n}\n\nmodel user {\n  id Int @id\n}\n',
  runtimeDataModel: {
    models: { user: { fields: [{ name: 'id', kind: 'scalar', type: 'Int' }], dbName: null, schema: null } },
    enums: {},
    types: {},
  },
  parameterizationSchema: {
    strings: JSON.parse(
      '["where","user.findUnique","user.findUniqueOrThrow","orderBy","cursor","user.findFirst","user.findFirstOrThrow","user.findMany","data","user.createOne","user.createMany","user.createManyAndReturn","user.updateOne","user.updateMany","user.updateManyAndReturn","create","update","user.upsertOne","user.deleteOne","user.deleteMany","having","_count","_avg","_sum","_min","_max","user.groupBy","user.aggregate","AND","OR","NOT","id","equals","in","notIn","lt","lte","gt","gte","not","set","increment","decrement","multiply","divide"]',
    ),
    graph:
      'JgsQBBwAAB8AMB0AAAQAEB4AAB8AMB8CAAAAAQEAAAABACABAAAAAQAgBBwAAB8AMB0AAAQAEB4AAB8AMB8CACAAIQADAAAABAAgAwAABQAwBAAAAQAgAwAAAAQAIAMAAAUAMAQAAAEAIAMAAAAEACADAAAFADAEAAABACABHwIAAAABAQgAAAkAIAEfAgAAAAEBCAAACwAwAQgAAAsAMAEfAgAmACECAAAAAQAgCAAADgAgAR8CACYAIQIAAAAEACAIAAAQACACAAAABAAgCAAAEAAgAwAAAAEAIA8AAAkAIBAAAA4AIAEAAAABACABAAAABAAgBRUAACEAIBYAACIAIBcAACUAIBgAACQAIBkAACMAIAQcAAAaADAdAAAXABAeAAAaADAfAgAbACEDAAAABAAgAwAAFgAwFAAAFwAgAwAAAAQAIAMAAAUAMAQAAAEAIAQcAAAaADAdAAAXABAeAAAaADAfAgAbACENFQAAHQAgFgAAHgAgFwAAHQAgGAAAHQAgGQAAHQAgIAIAAAABIQIAAAAEIgIAAAAEIwIAAAABJAIAAAABJQIAAAABJgIAAAABJwIAHAAhDRUAAB0AIBYAAB4AIBcAAB0AIBgAAB0AIBkAAB0AICACAAAAASECAAAABCICAAAABCMCAAAAASQCAAAAASUCAAAAASYCAAAAAScCABwAIQggAgAAAAEhAgAAAAQiAgAAAAQjAgAAAAEkAgAAAAElAgAAAAEmAgAAAAEnAgAdACEIIAgAAAABIQgAAAAEIggAAAAEIwgAAAABJAgAAAABJQgAAAABJggAAAABJwgAHgAhBBwAAB8AMB0AAAQAEB4AAB8AMB8CACAAIQggAgAAAAEhAgAAAAQiAgAAAAQjAgAAAAEkAgAAAAElAgAAAAEmAgAAAAEnAgAdACEAAAAAAAUoAgAAAAEpAgAAAAEqAgAAAAErAgAAAAEsAgAAAAEAAAAABRUABhYABxcACBgACRkACgAAAAAABRUABhYABxcACBgACRkACgECAQIDAQUGAQYHAQcIAQkKAQoMAgsNAwwPAQ0RAg4SBBETARIUARMVAhoYBRsZCw',
  },
  compilerWasm: {
    getRuntime: () => import(`${compiler}.mjs`),
    async getQueryCompilerWasmModule() {
      const { wasm } = await import(`${compiler}.wasm-base64.mjs`)
      // biome-ignore lint/suspicious/noExplicitAny: Node's types have no WebAssembly
      return new (globalThis as any).WebAssembly.Module(Buffer.from(wasm, 'base64'))
    },
    importName: './query_compiler_fast_bg.js',
  },
} as unknown as Parameters<typeof getPrismaClient>[0]

export const PrismaClient = getPrismaClient(generated)
