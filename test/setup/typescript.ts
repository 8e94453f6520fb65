/** Options of Node.js for a program in TypeScript. Node 20 needs the loader. It does nothing on later versions. */
export const typescript = ['--import', new URL('../../scripts/typescript.js', import.meta.url).href]
