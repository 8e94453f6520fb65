import { defineConfig } from 'vite'

export default defineConfig({
  // Every address is relative: under which path the page is served is known when somebody asks for it, and not before.
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../dist/dashboard/ui',
    emptyOutDir: true,
    // `light-dark()`, container queries and `<dialog>` are all of 2023 and 2024.
    target: ['chrome123', 'firefox121', 'safari17.5'],
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // No inlined images: each file has a name that is served for ever.
    assetsInlineLimit: 0,
  },
  // `npm run ui`: the front end from its sources, before a dashboard that runs elsewhere.
  server: { proxy: { '/api': process.env.HOLDFAST_DASHBOARD ?? 'http://127.0.0.1:7777' } },
})
