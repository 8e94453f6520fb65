/** Options of Node.js for a program in TypeScript. Node 20 needs the loader; on later versions it does nothing. */
export const typescript = ['--import', new URL('../../scripts/typescript.js', import.meta.url).href]
