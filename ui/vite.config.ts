// Builds the UI into `dist`, which the node embeds and serves from `/`.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { svelteTesting } from '@testing-library/svelte/vite';
import { defineConfig } from 'vitest/config';

/** A running node, for `npm run dev`; open its address's `#token=…` on the address that Vite prints. */
const node = process.env['MACRAME_API'] ?? 'http://127.0.0.1:4747';

export default defineConfig({
  plugins: [svelte(), svelteTesting()],
  // The node answers with `default-src 'self'`, so nothing may become a `data:` address.
  build: { assetsInlineLimit: 0, modulePreload: { polyfill: false }, target: 'safari16' },
  // The icons lie in `../assets`, outside this folder.
  server: {
    fs: { allow: ['..'] },
    // The node answers only pages of its own origin.
    proxy: { '/v1': { target: node, changeOrigin: true, headers: { origin: node } } },
  },
  test: {
    environment: 'happy-dom',
    include: ['src/**/*.test.ts'],
    setupFiles: ['src/testing/setup.ts'],
    restoreMocks: true,
    unstubGlobals: true,
    // Setting up a page per file took ten times as long as the tests; each test cleans up after itself.
    isolate: false,
    pool: 'threads',
  },
});
