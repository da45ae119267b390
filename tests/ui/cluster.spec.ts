// The cluster, read and changed with the keyboard alone.
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { ANSWER_MS, launch, open } from './cluster-under-test';
import { press, tabTo } from './keyboard';

let browser: Browser;
let page: Page;
let complaints: string[];

beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());
beforeEach(async () => {
  ({ page, complaints } = await open(browser, 'first', {
    viewport: { width: 1200, height: 1100 },
  }));
  await page.getByRole('navigation', { name: 'Views' }).waitFor();
  await page.keyboard.press('Control+2');
  await page.getByRole('article', { name: /SmolLM2/i }).waitFor();
});
afterEach(async () => {
  expect(complaints).toEqual([]);
  await page.context().close();
});

test('the topology is read as a table', async () => {
  await press(page, 'Show as table');
  const nodes = page.getByRole('table', { name: 'Nodes' });
  const rows = nodes.getByRole('row');
  // The head, and two nodes.
  expect(await rows.count()).toBe(3);
  const layers = (await rows.allInnerTexts()).flatMap(
    (row) => /layers (\d+)–(\d+) of (\d+)/.exec(row) ?? [],
  );
  // Together the two hold every layer, each once.
  const [, firstA, lastA, n, , firstB, lastB] = layers.map(Number);
  const [low, high] =
    firstA === 0
      ? [
          [firstA, lastA],
          [firstB, lastB],
        ]
      : [
          [firstB, lastB],
          [firstA, lastA],
        ];
  expect(low?.[0]).toBe(0);
  expect(high?.[0]).toBe(Number(low?.[1]) + 1);
  expect(high?.[1]).toBe(Number(n) - 1);

  await tabTo(page, 'Nodes, table');
  await tabTo(page, 'Links, table');
  const links = page.getByRole('table', { name: 'Links' });
  await expect.poll(() => links.innerText(), { timeout: 30_000 }).toMatch(/[µm]s\s/);
  await press(page, 'Show as drawing');
  await page.getByRole('group', { name: /2 nodes/ }).waitFor();
});

test('a node opens, and closes back to where it was', async () => {
  await tabTo(page, /, this machine: /);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText('Macramé may use').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await tabTo(page, /, this machine: /);
});

test(
  'the model is stopped and deployed again',
  async () => {
    await press(page, 'Stop');
    await press(page, /^Stop SmolLM2/i);
    await page.getByRole('article', { name: /SmolLM2/i }).waitFor({ state: 'detached' });

    await press(page, /^Deploy SmolLM2.*…$/i);
    const dialog = page.getByRole('dialog', { name: /^Deploy SmolLM2/i });
    await tabTo(page, 'On as few nodes as hold it');
    await page.keyboard.press('ArrowDown');
    const plan = dialog.getByRole('list', { name: 'The plan, node by node' });
    await expect.poll(() => plan.getByRole('listitem').count()).toBe(2);
    await press(page, 'Deploy');
    await page
      .getByRole('article', { name: /SmolLM2/i })
      .getByText('Serving')
      .first()
      .waitFor({ timeout: ANSWER_MS });
  },
  ANSWER_MS,
);

test('a model dragged onto the cluster shows its plan first', async () => {
  const handle = page.getByRole('list', { name: 'Models to deploy' }).locator('.grab').first();
  const from = await handle.boundingBox();
  const onto = await page.getByRole('button', { name: /, this machine: / }).boundingBox();
  if (from === null || onto === null) throw new Error('nothing to drag, or nowhere to drag it');
  await page.mouse.move(from.x + 10, from.y + 10);
  await page.mouse.down();
  await page.mouse.move(onto.x + onto.width / 2, onto.y + onto.height / 2, {
    steps: 8,
  });
  await page.mouse.up();
  const dialog = page.getByRole('dialog', { name: /^Deploy/ });
  await dialog.waitFor();
  // Dropped on one node: only that one is chosen.
  expect(await dialog.getByRole('checkbox', { checked: true }).count()).toBe(1);
  await page.keyboard.press('Escape');
});
