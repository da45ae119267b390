// Walking a page with the keyboard alone, as someone without a mouse does.
import type { Page } from 'playwright-core';

/** More stops than any view of ours has. */
const TABS_MAX = 80;

/** The name of what has the focus, as it would be read aloud. */
export function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    const element = document.activeElement;
    if (element === null || element === document.body) return '';
    const label = element instanceof HTMLInputElement ? element.labels?.[0]?.textContent : null;
    const name = element.getAttribute('aria-label') ?? label ?? element.textContent;
    return name.replace(/\s+/g, ' ').trim();
  });
}

/** Presses Tab until the focus is on `name`. */
export async function tabTo(page: Page, name: string | RegExp): Promise<void> {
  const seen: string[] = [];
  for (let stop = 0; stop < TABS_MAX; stop += 1) {
    const here = await focused(page);
    if (typeof name === 'string' ? here === name : name.test(here)) return;
    seen.push(here);
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab never reached ${name}; it stopped at: ${seen.join(' | ')}`);
}

/** Goes to `name` and presses it. */
export async function press(page: Page, name: string | RegExp): Promise<void> {
  await tabTo(page, name);
  await page.keyboard.press('Enter');
}
