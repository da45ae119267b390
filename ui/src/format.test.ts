import { expect, test } from 'vitest';
import {
  formatBandwidth,
  formatBytes,
  formatCountdown,
  formatDay,
  formatDuration,
  formatLatency,
  formatLayers,
  formatMillis,
  shortModel,
} from './format';

test.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1536, '1.5 KiB'],
  [144 * 1024 ** 2, '144 MiB'],
  [4.6 * 1024 ** 3, '4.6 GiB'],
  [1024 ** 4, '1 TiB'],
  [-1, '0 B'],
])('%d bytes read as %s', (bytes, text) => expect(formatBytes(bytes)).toBe(text));

test.each([
  [125_000_000, '1 Gbit/s'],
  [2.35e9, '18.8 Gbit/s'],
  [6_250_000, '50 Mbit/s'],
  [12_500, '100 kbit/s'],
])('%d bytes per second read as %s', (rate, text) => expect(formatBandwidth(rate)).toBe(text));

test.each([
  [7.24, '7.24 µs'],
  [320, '320 µs'],
  [1900, '1.9 ms'],
])('a latency of %d µs reads as %s', (us, text) => expect(formatLatency(us)).toBe(text));

test.each([
  [5, '5 s'],
  [59.6, '1 min'],
  [200, '3 min'],
  [3600, '1 h'],
  [7500, '2 h 5 min'],
])('%d seconds read as %s', (seconds, text) => expect(formatDuration(seconds)).toBe(text));

test('a countdown shows whole seconds and never goes below zero', () => {
  expect(formatCountdown(119_001)).toBe('2:00');
  expect(formatCountdown(47_000)).toBe('0:47');
  expect(formatCountdown(-5)).toBe('0:00');
});

test('milliseconds become seconds when there are many', () => {
  expect(formatMillis(412.4)).toBe('412 ms');
  expect(formatMillis(1840)).toBe('1.84 s');
});

test('layers name both ends, or the one', () => {
  expect(formatLayers(0, 14)).toBe('layers 0–14');
  expect(formatLayers(3, 3)).toBe('layer 3');
});

test('a chat of last midnight’s other side is from yesterday', () => {
  const now = new Date(2026, 10, 30, 9).getTime();
  expect(formatDay(new Date(2026, 10, 30, 0, 1).getTime(), now)).toBe('Today');
  expect(formatDay(new Date(2026, 10, 29, 23, 59).getTime(), now)).toBe('Yesterday');
  expect(formatDay(new Date(2026, 10, 25).getTime(), now)).toBe('This week');
  expect(formatDay(new Date(2026, 9, 1).getTime(), now)).toBe('Earlier');
});

test('a model’s short name leaves its owner out', () => {
  expect(shortModel('bartowski/SmolLM2-135M-Instruct-GGUF')).toBe('SmolLM2-135M-Instruct-GGUF');
  expect(shortModel('org/Large-GGUF:Q4/Large-Q4_0-00001-of-00003.gguf')).toBe('Large-Q4_0');
  expect(shortModel('local')).toBe('local');
});
