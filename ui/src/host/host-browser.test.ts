import { beforeEach, expect, test } from 'vitest';
import { browserHost } from './host-browser';

beforeEach(() => history.replaceState(null, '', '/'));

const open = (address: string) => {
  history.replaceState(null, '', address);
  return browserHost(location, sessionStorage, history);
};

test('the token leaves the address bar and survives a reload', () => {
  expect(open('/?x=1#token=abc').api().token).toBe('abc');
  expect(location.hash).toBe('');
  expect(location.search).toBe('?x=1');
  expect(open('/#/cluster').api().token).toBe('abc');
});

test('another fragment is left alone', () => {
  expect(open('/#/cluster').api().token).toBe('');
  expect(location.hash).toBe('#/cluster');
});

test('a new token replaces the old one', () => {
  open('/#token=old');
  expect(open('/#token=new').api().token).toBe('new');
});
