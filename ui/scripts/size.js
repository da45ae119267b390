// Holds the built UI to its budget: what the first page loads, and everything there is. Run after `npm run build`.
import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

/** A window that opens at once is most of what feels native; Svelte itself is about 20 kB of it. */
const FIRST_LOAD_MAX_BYTES = 60_000;
const WHOLE_APP_MAX_BYTES = 180_000;

const dist = new URL('../dist/', import.meta.url);
const scripts = readdirSync(new URL('assets/', dist)).filter((name) => name.endsWith('.js'));
const source = (name) => readFileSync(new URL(`assets/${name}`, dist));
const gzipBytes = (name) => gzipSync(source(name), { level: 9 }).length;

/** The entry, all it imports at once, and the browser's host, which it always needs. */
function firstLoad() {
  const html = readFileSync(new URL('index.html', dist), 'utf8');
  const seen = new Set(
    scripts.filter((name) => html.includes(name) || name.startsWith('host-browser')),
  );
  for (const name of seen) {
    for (const [, imported] of source(name)
      .toString()
      .matchAll(/(?:from|import)\s*["']\.\/([^"']+\.js)["']/g)) {
      seen.add(imported);
    }
  }
  return [...seen];
}

const sum = (names) => names.reduce((bytes, name) => bytes + gzipBytes(name), 0);
const budgets = [
  ['first load', sum(firstLoad()), FIRST_LOAD_MAX_BYTES],
  ['whole app', sum(scripts), WHOLE_APP_MAX_BYTES],
];
for (const [what, bytes, max] of budgets) {
  console.log(`${what}: ${(bytes / 1000).toFixed(1)} kB gzip of script, at most ${max / 1000} kB`);
}
if (budgets.some(([, bytes, max]) => bytes > max)) process.exit(1);
