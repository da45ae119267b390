// Server-sent events from a `fetch` body. `EventSource` cannot send the token's header.

/** A line longer than this is not ours: the whole cluster view of 16 nodes is some 50 kB. */
const LINE_CHARS_MAX = 4 * 1024 * 1024;

/** The `data` of each event, in order. Comments, names and ids are skipped: nothing of ours uses them. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const parser = new EventParser();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    // Also reached when the consumer breaks out of its loop: the connection must not stay open.
    await reader.cancel().catch(() => undefined);
  }
}

/** Turns pieces of text, cut anywhere, into events. */
export class EventParser {
  #rest = '';
  #data: string[] = [];

  push(piece: string): string[] {
    const events: string[] = [];
    this.#rest += piece;
    // A lone CR at the end may be half of a CRLF.
    const lines = this.#rest.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    if (this.#rest.length > LINE_CHARS_MAX)
      throw new Error('a line of the event stream is too long');
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length > 0) events.push(this.#data.join('\n'));
        this.#data = [];
      } else if (line.startsWith('data:')) {
        this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
      }
    }
    return events;
  }
}
