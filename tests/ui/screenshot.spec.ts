// Takes the picture in the README: the cluster with the model split over two nodes. Only when told where to put it.
import { afterAll, beforeAll, test } from 'vitest';
import type { Browser } from 'playwright-core';
import { launch, open } from './cluster-under-test';

const out = process.env['MACRAME_SCREENSHOT_OUT'];
let browser: Browser;

beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

test.runIf(out !== undefined)('the cluster, pictured', async () => {
  const { page } = await open(browser, 'first', {
    viewport: { width: 1120, height: 700 },
    deviceScaleFactor: 2,
    colorScheme: 'light',
    reducedMotion: 'reduce',
  });
  await page.getByRole('combobox', { name: 'Model' }).waitFor();
  await page.keyboard.press('Control+2');
  await page
    .getByRole('article', { name: /SmolLM2/i })
    .getByText('Serving')
    .first()
    .waitFor();
  // The links have been measured.
  await page.locator('svg text', { hasText: 'bit/s' }).first().waitFor({ timeout: 30_000 });
  await page.screenshot({ path: out ?? '' });
});
