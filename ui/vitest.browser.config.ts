// Runs `../tests/ui`: Chromium against a real cluster that `cargo xtask test` has started (MACRAME_UI_URL and friends).
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const installed = (name: string) =>
  fileURLToPath(new URL(`./node_modules/${name}`, import.meta.url));

export default defineConfig({
  resolve: {
    // The specs lie outside this folder, where Node would not find its packages.
    alias: {
      'playwright-core': installed('playwright-core/index.mjs'),
      'axe-core': installed('axe-core/axe.js'),
      vitest: installed('vitest/dist/index.js'),
    },
  },
  test: {
    include: ['../tests/ui/**/*.spec.ts'],
    // The specs share one cluster: one after the other.
    fileParallelism: false,
    sequence: { concurrent: false },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
