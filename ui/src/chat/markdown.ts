// Markdown of a model as HTML that is safe to show: a model may write anything, also what a web page made it write.
import DOMPurify from 'dompurify';
import { Marked, type Token } from 'marked';

const marked = new Marked({
  gfm: true,
  renderer: {
    // Nothing is fetched from elsewhere: a picture's address can carry the conversation away.
    image: ({ text, href }) => `<a href="${attribute(href)}">${escaped(text || href)}</a>`,
    // Shown as written.
    html: ({ text }) => escaped(text),
  },
});

const purifier = DOMPurify(window);
purifier.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName === 'A') {
    node.setAttribute('target', '_blank');
    node.setAttribute('rel', 'noopener noreferrer');
  }
});

export function tokenHtml(token: Token): string {
  return safe(marked.parser([token]));
}

/** What is left of `html` once everything that could run or load something is gone. */
export function safe(html: string): string {
  return purifier.sanitize(html, {
    USE_PROFILES: { html: true },
    FORBID_TAGS: [
      'img',
      'style',
      'form',
      'button',
      'textarea',
      'select',
      'video',
      'audio',
      'picture',
    ],
    FORBID_ATTR: ['style', 'id', 'name'],
  });
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const attribute = (text: string): string => escaped(text).replaceAll('"', '&quot;');
