import { expect, test } from 'vitest';
import { GIB, MIB } from '../testing/cluster';
import { downloadText } from './download';

const download = {
  model: 'm',
  doneBytes: GIB,
  totalBytes: 4 * GIB,
  bytesPerSec: 24 * MIB,
  error: null,
};

test('a download says how far, how fast and how long still', () => {
  expect(downloadText(download)).toBe('1 GiB of 4 GiB · 24 MiB/s · 2 min left');
});

test('what is not known yet is left out', () => {
  expect(downloadText({ ...download, bytesPerSec: 0 })).toBe('1 GiB of 4 GiB');
  expect(downloadText({ ...download, totalBytes: 0 })).toBe('asking for its size…');
});
