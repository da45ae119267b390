import { marked } from 'marked';
import { expect, test } from 'vitest';
import { safe, tokenHtml } from './markdown';

const html = (text: string) => marked.lexer(text).map(tokenHtml).join('');

test.each([
  ['<img src=x onerror=alert(1)>'],
  ['<script>alert(1)</script>'],
  ['[click](javascript:alert(1))'],
  ['![spy](https://elsewhere.test/?what=was-said)'],
  ['<iframe src="https://elsewhere.test"></iframe>'],
  ['<div style="position:fixed">over everything</div>'],
])('%s can neither run nor load anything', (text) => {
  const holder = document.createElement('div');
  holder.innerHTML = html(text);
  expect(holder.querySelector('img, script, iframe, style, [style], [onerror]')).toBe(null);
  for (const link of holder.querySelectorAll('a')) {
    expect(link.getAttribute('href') ?? '').not.toMatch(/^javascript:/);
  }
});

test('links open elsewhere and tell nothing of this page', () => {
  expect(html('[docs](https://example.test/)')).toContain(
    '<a href="https://example.test/" target="_blank" rel="noopener noreferrer">docs</a>',
  );
});

test('HTML in an answer is shown as it was written', () => {
  expect(html('a <b>bold</b> word')).toContain('&lt;b&gt;bold&lt;/b&gt;');
});

test('colouring survives the cleaning', () => {
  expect(safe('<span class="hljs-keyword">fn</span>')).toBe('<span class="hljs-keyword">fn</span>');
});
