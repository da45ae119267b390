// Colours code. The colouring itself is a chunk of its own, loaded with the first block that needs it.

/** Longer code stays plain: colouring it would stall the page. */
const CODE_CHARS_MAX = 60_000;

/** HTML of `code` in spans, or `null` when its language is not known. */
export async function highlight(code: string, lang: string): Promise<string | null> {
  if (lang === '' || code.length > CODE_CHARS_MAX) return null;
  const { hljs } = await import('./highlight-languages');
  const language = hljs.getLanguage(lang);
  return language ? hljs.highlight(code, { language: lang, ignoreIllegals: true }).value : null;
}
