// Pairing a third machine with the keyboard alone: its page shows the code, the first node's page types it.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ask, launch, open, SIGHTING_MS } from './cluster-under-test';
import { press, tabTo } from './keyboard';

let browser: Browser;

beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

test(
  'six digits tie a machine to the cluster, and it can be untied',
  async () => {
    const { view } = await ask<{
      view: { nodes: { name: string; isSelf: boolean }[] };
    }>('unpaired', '/v1/cluster');
    const name = view.nodes.find(({ isSelf }) => isSelf)?.name ?? '';
    const third = await open(browser, 'unpaired');
    const first = await open(browser, 'first');
    for (const { page } of [third, first]) {
      await page.getByRole('navigation', { name: 'Views' }).waitFor();
      await page.keyboard.press('Control+2');
    }

    await first.page
      .getByRole('button', { name: `Pair ${name}…` })
      .waitFor({ timeout: SIGHTING_MS });
    await press(third.page, 'Pair a machine…');
    await press(third.page, 'Show a code');
    const shown = await third.page.getByText(/Pairing code: (\d ){5}\d/).textContent();
    const code = shown?.replace(/\D/g, '') ?? '';
    expect(code).toHaveLength(6);

    // A wrong code first: it must be refused in words.
    await press(first.page, `Pair ${name}…`);
    await tabTo(first.page, 'Code');
    await first.page.keyboard.type(code === '000000' ? '111111' : '000000');
    await first.page.keyboard.press('Enter');
    await first.page.getByRole('alert').waitFor();
    first.complaints.length = 0; // Chromium logs the refusal's status as an error.

    await tabTo(first.page, 'Code');
    await first.page.keyboard.press('Control+A');
    await first.page.keyboard.type(code);
    await first.page.keyboard.press('Enter');

    // Each sees the other as a node, and both dialogs close by themselves.
    await first.page
      .getByRole('button', { name: new RegExp(`^${name}: alive`) })
      .waitFor({ timeout: SIGHTING_MS });
    for (const { page } of [first, third]) {
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    }

    await tabTo(first.page, new RegExp(`^${name}: `));
    await first.page.keyboard.press('Enter');
    await press(first.page, 'Unpair…');
    await press(first.page, `Unpair ${name}`);
    await first.page
      .getByRole('button', { name: `Pair ${name}…` })
      .waitFor({ timeout: SIGHTING_MS });

    // The other side forgets it too, or it would wait for it for good.
    const { view: ofFirst } = await ask<{ view: { selfId: string } }>('first', '/v1/cluster');
    await ask('unpaired', `/v1/cluster/nodes/${ofFirst.selfId}`, { method: 'DELETE' });

    expect([...first.complaints, ...third.complaints]).toEqual([]);
  },
  4 * SIGHTING_MS,
);
