// Run from the top of the repository (`npm run lint`), since the browser specs lie in `tests/ui`.
// Lints, and the three tiers of `src`: parts know no domain, domains do not know each other, views compose.
import js from '@eslint/js';
import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';
import svelteConfig from './svelte.config.js';

/** A folder of `src`, and what its files may not import. */
const tier = (files, forbidden, message) => ({
  files,
  rules: {
    'no-restricted-imports': ['error', { patterns: [{ regex: forbidden, message }] }],
  },
});

const DOMAINS = ['topology', 'models', 'chat', 'settings'];
const TAURI = '^@tauri-apps/';

export default ts.config(
  { ignores: ['ui/dist/', 'ui/src/api/types.gen.ts'] },
  js.configs.recommended,
  ts.configs.strict,
  svelte.configs.recommended,
  svelte.configs.prettier,
  {
    languageOptions: { globals: { ...globals.browser, ...globals.node } },
    rules: {
      eqeqeq: 'error',
      'no-console': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': 'off',
      // Both places that use it pass the text through DOMPurify or are our own files; each says so.
      'svelte/no-at-html-tags': 'error',
      'svelte/require-each-key': 'error',
    },
  },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: {
      parserOptions: { parser: ts.parser, extraFileExtensions: ['.svelte'], svelteConfig },
    },
  },
  { files: ['ui/scripts/**'], rules: { 'no-console': 'off' } },
  tier(
    ['ui/src/**'],
    TAURI,
    'Only host/host-tauri.ts speaks to Tauri; ask for it in host/host.ts instead.',
  ),
  tier(
    ['ui/src/parts/**'],
    `${TAURI}|/(api|state|host|views|${DOMAINS.join('|')})/`,
    'A part knows no domain: give it values and callbacks.',
  ),
  ...DOMAINS.map((domain) =>
    tier(
      [`ui/src/${domain}/**`],
      `${TAURI}|/(state|views|${DOMAINS.filter((other) => other !== domain).join('|')})/`,
      'A domain is given view values by a view; it reads no store and no other domain.',
    ),
  ),
  tier(
    ['ui/src/api/**', 'ui/src/state/**'],
    `${TAURI}|/(parts|views|${DOMAINS.join('|')})/`,
    'State knows nothing of what draws it.',
  ),
  { files: ['ui/src/host/host-tauri.ts'], rules: { 'no-restricted-imports': 'off' } },
);
