import { expect, test } from 'vitest';
import { EventParser, readEvents } from './sse';

const STREAM = ': keep-alive\n\nevent: x\nid: 4\ndata: {"a":1}\n\ndata:two\r\ndata: lines\r\n\r\n';

test('a stream cut anywhere gives the same events', () => {
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    const parser = new EventParser();
    const events = [...parser.push(STREAM.slice(0, cut)), ...parser.push(STREAM.slice(cut))];
    expect(events, `cut at ${cut}`).toEqual(['{"a":1}', 'two\nlines']);
  }
});

test('an event is not given before its empty line', () => {
  const parser = new EventParser();
  expect(parser.push('data: half\n')).toEqual([]);
  expect(parser.push('\n')).toEqual(['half']);
});

test('characters split over two pieces stay whole', async () => {
  const bytes = new TextEncoder().encode('data: Macramé\n\n');
  const cut = bytes.indexOf(0xc3) + 1;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(bytes.slice(0, cut));
      controller.enqueue(bytes.slice(cut));
      controller.close();
    },
  });
  expect(await collected(readEvents(body))).toEqual(['Macramé']);
});

test('who stops reading closes the connection', async () => {
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode('data: 1\n\ndata: 2\n\n')),
    cancel: () => {
      cancelled = true;
    },
  });
  for await (const event of readEvents(body)) {
    expect(event).toBe('1');
    break;
  }
  expect(cancelled).toBe(true);
});

async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
