// axe-core finds nothing on any view, light or dark, wide or narrow; nothing is wider than its window.
import axe from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ask, launch, open } from './cluster-under-test';

let browser: Browser;

beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

const VIEWS = [
  ['Chat', 'Control+1'],
  ['Cluster', 'Control+2'],
  ['Models', 'Control+3'],
  ['Settings', 'Control+4'],
] as const;

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(() =>
    (window as unknown as { axe: typeof axe }).axe.run({
      resultTypes: ['violations'],
    }),
  );
  return found.violations.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' / ')}`,
  );
}

const overflow = (page: Page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

for (const colorScheme of ['light', 'dark'] as const) {
  for (const viewport of [
    { width: 1200, height: 800 },
    { width: 420, height: 640 },
    { width: 360, height: 640 },
  ]) {
    test(`every view in ${colorScheme} at ${viewport.width} px`, async () => {
      const reducedMotion = 'reduce';
      const { page, complaints } = await open(browser, 'first', {
        colorScheme,
        viewport,
        reducedMotion,
      });
      await page.getByRole('combobox', { name: 'Model' }).waitFor();
      for (const [name, key] of VIEWS) {
        await page.keyboard.press(key);
        await page.locator('button[aria-current="page"]', { hasText: name }).waitFor();
        // What a view asks the node for has come.
        await page
          .getByRole('status')
          .filter({ hasText: 'Asking the node' })
          .waitFor({ state: 'detached' });
        expect(await violations(page), name).toEqual([]);
        expect(await overflow(page), `${name} is too wide`).toBe(0);
      }

      await page.keyboard.press('Control+2');
      await page.getByRole('button', { name: 'Show as table' }).click();
      expect(await violations(page), 'table').toEqual([]);
      await page.getByRole('button', { name: 'Pair a machine…' }).click();
      expect(await violations(page), 'pairing').toEqual([]);
      await page.keyboard.press('Escape');
      await page
        .getByRole('button', { name: /^Deploy .*…$/ })
        .first()
        .click();
      await page.getByRole('list', { name: 'The plan, node by node' }).waitFor();
      expect(await violations(page), 'plan').toEqual([]);

      expect(complaints).toEqual([]);
      await page.context().close();
    });
  }
}

test('a conversation with code and a table, in light and in dark', async () => {
  // New each time: a deleted chat stays deleted, whatever is put into it.
  const id = `access-${Date.now()}`;
  const text =
    '# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn main() {} // note\n```\n\n> quoted';
  const facts = {
    model: 'SmolLM2',
    promptTokens: 10,
    completionTokens: 20,
    firstTokenMs: 300,
    tokensPerSec: 12.5,
    ended: 'stopped by you',
  };
  const messages = [
    { role: 'user', text: 'Show me.', facts: null },
    { role: 'assistant', text, facts },
  ];
  const chat = { id, title: 'Access test', model: null, messages };
  await ask('first', `/v1/chats/${id}`, { method: 'PUT', body: JSON.stringify(chat) });
  try {
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page } = await open(browser, 'first', { colorScheme, reducedMotion: 'reduce' });
      await page.getByRole('button', { name: 'Access test', exact: true }).click();
      await page.locator('.hljs-keyword').waitFor();
      expect(await violations(page), colorScheme).toEqual([]);
      await page.context().close();
    }
  } finally {
    await ask('first', `/v1/chats/${id}`, { method: 'DELETE' });
  }
});
