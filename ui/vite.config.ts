// Builds the UI into `dist`, which the node embeds and serves from `/`.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { svelteTesting } from '@testing-library/svelte/vite';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  plugins: [svelte(), svelteTesting()],
  // The node answers with `default-src 'self'`, so nothing may become a `data:` address.
  build: { assetsInlineLimit: 0, modulePreload: { polyfill: false }, target: 'safari16' },
  // The icons lie in `../assets`, outside this folder.
  server: { fs: { allow: ['..'] } },
  test: {
    environment: 'happy-dom',
    include: ['src/**/*.test.ts'],
    setupFiles: ['src/test-setup.ts'],
    restoreMocks: true,
  },
});
