import { defineConfig } from 'vite'

export default defineConfig({
  // All URLs are relative, because the dashboard's path is known only when a request arrives.
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../dist/dashboard/ui',
    emptyOutDir: true,
    // The oldest browser versions that support `light-dark()`, container queries and `<dialog>`.
    target: ['chrome123', 'firefox121', 'safari17.5'],
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Inlines no images, so that every asset is a file with a hashed name, which browsers cache forever.
    assetsInlineLimit: 0,
  },
  // `npm run ui` serves the sources and forwards API requests to a running dashboard.
  server: { proxy: { '/api': process.env.HOLDFAST_DASHBOARD ?? 'http://127.0.0.1:7777' } },
})
