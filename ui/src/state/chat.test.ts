import { expect, test } from 'vitest';
import type { AnswerFacts } from '../api/types.gen';
import {
  answered,
  asked,
  edited,
  endedNote,
  modelFor,
  newChat,
  prompt,
  titleOf,
  withoutLastAnswer,
} from './chat';

const facts: AnswerFacts = {
  model: 'm',
  promptTokens: 1,
  completionTokens: 2,
  firstTokenMs: 3,
  tokensPerSec: 4,
  ended: 'stop',
};
const talk = answered(
  asked(answered(asked(newChat('id-12345'), 'first'), 'one', facts), 'second'),
  'two',
  facts,
);
const texts = (chat: { messages: { text: string }[] }) => chat.messages.map(({ text }) => text);

test('the first question names the chat, later ones do not', () => {
  expect(talk.title).toBe('first');
});

test('editing a question drops everything after it', () => {
  expect(texts(edited(talk, 2, 'other'))).toEqual(['first', 'one', 'other']);
  expect(texts(edited(talk, 0, 'anew'))).toEqual(['anew']);
});

test('a chat named after its first question follows an edit of it, a renamed one does not', () => {
  expect(edited(talk, 0, 'anew').title).toBe('anew');
  expect(edited(talk, 2, 'other').title).toBe('first');
  expect(edited({ ...talk, title: 'mine' }, 0, 'anew').title).toBe('mine');
});

test('regenerating drops the last answer only, and only an answer', () => {
  expect(texts(withoutLastAnswer(talk))).toEqual(['first', 'one', 'second']);
  const open = asked(talk, 'third');
  expect(withoutLastAnswer(open)).toBe(open);
});

test('an empty answer is not shown to the model', () => {
  const chat = asked(answered(asked(newChat('id-12345'), 'hi'), '', facts), 'again');
  expect(prompt(chat)).toEqual([
    { role: 'user', content: 'hi' },
    { role: 'user', content: 'again' },
  ]);
});

test('titles are one line, cut at a word', () => {
  expect(titleOf('  short\nsecond line')).toBe('short');
  expect(titleOf('word '.repeat(30))).toBe(`${'word '.repeat(9).trim()}…`);
  expect(titleOf('x'.repeat(80))).toBe(`${'x'.repeat(48)}…`);
  expect(titleOf('   ')).toBe('New chat');
});

test('a chosen model is kept while it serves', () => {
  expect(modelFor('b', ['a', 'b'])).toBe('b');
  expect(modelFor('gone', ['a', 'b'])).toBe('a');
  expect(modelFor('gone', [])).toBe(null);
});

test('only an unusual end is noted', () => {
  expect(endedNote(facts)).toBe(null);
  expect(endedNote({ ...facts, ended: 'stopped by you' })).toBe('stopped by you');
  expect(endedNote({ ...facts, ended: 'length' })).toMatch(/context/);
});
