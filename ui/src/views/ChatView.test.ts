// The chat view in each of its states.
import { render, screen, within } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import { expect, test } from 'vitest';
import Root from '../App.svelte';
import type { ClusterView, ModelView } from '../api/types.gen';
import { clusterView, deploymentView, modelView, servingPair } from '../testing/cluster';
import { FakeNode, refusal, streamedAnswer, testApp } from '../testing/node';

function open(view: ClusterView, models: ModelView[] = []) {
  const node = new FakeNode(view, models);
  render(Root, { app: testApp('chat') });
  return { node, user: userEvent.setup() };
}

const box = () => screen.getByRole('textbox', { name: 'Message' });

test('with no model at all, a way to get one', async () => {
  open(clusterView());
  expect(await screen.findByRole('button', { name: 'Get a model' })).toBeTruthy();
});

test('with a model on disk, a button that deploys it', async () => {
  const { node, user } = open(clusterView(), [modelView('org/Tiny')]);
  node.on('POST /v1/cluster/plan', () => refusal('not now', []));
  await user.click(await screen.findByRole('button', { name: 'Deploy Tiny' }));
  expect(screen.getByRole('dialog', { name: 'Deploy Tiny' })).toBeTruthy();
});

test('while a model gets ready, how far it is', async () => {
  const statusText = 'fetching on studio';
  open(clusterView({ deployments: [deploymentView(['studio'], 'fetching', { statusText })] }));
  expect(await screen.findByText(statusText)).toBeTruthy();
  expect(screen.getByRole('progressbar', { name: 'Getting ready' })).toBeTruthy();
});

test('Enter sends, and the answer comes with its facts', async () => {
  const { node, user } = open(servingPair());
  node.on('POST /v1/chat/completions', () => streamedAnswer(['Red', ', blue', ' and yellow.']));
  await screen.findByRole('combobox', { name: 'Model' });
  await user.type(box(), 'Colours?{Shift>}{Enter}{/Shift}Three.{Enter}');

  const answer = within(await screen.findByRole('article', { name: 'Answer' }));
  expect(await answer.findByText('Red, blue and yellow.')).toBeTruthy();
  const facts = await answer.findByRole('list', { name: 'How this answer was made' });
  expect(
    within(facts)
      .getAllByRole('listitem')
      .map(({ textContent }) => textContent),
  ).toEqual([
    '42 tokens/s',
    'first token after 95 ms',
    '12 tokens in',
    '3 tokens out',
    'SmolLM2-135M-Instruct',
  ]);
  expect(node.bodies('POST /v1/chat/completions')).toMatchObject([
    { messages: [{ role: 'user', content: 'Colours?\nThree.' }] },
  ]);
  expect(box()).toHaveProperty('value', '');
});

test('an error comes with its hints and can be tried again', async () => {
  const { node, user } = open(servingPair());
  node.on('POST /v1/chat/completions', () => refusal('mini is gone', ['plug it in']));
  await screen.findByRole('combobox', { name: 'Model' });
  await user.type(box(), 'Hi{Enter}');
  const alert = await screen.findByRole('alert');
  expect(alert.textContent).toMatch(/mini is gone.*plug it in/s);

  node.on('POST /v1/chat/completions', () => streamedAnswer(['Hello']));
  await user.click(within(alert).getByRole('button', { name: 'Try again' }));
  expect(await screen.findByText('Hello')).toBeTruthy();
  expect(screen.queryByRole('alert')).toBe(null);
});

test('editing a question asks it anew', async () => {
  const { node, user } = open(servingPair());
  node.on('POST /v1/chat/completions', () => streamedAnswer(['First answer']));
  await screen.findByRole('combobox', { name: 'Model' });
  await user.type(box(), 'One{Enter}');
  await screen.findByText('First answer');

  node.on('POST /v1/chat/completions', () => streamedAnswer(['Second answer']));
  await user.click(await screen.findByRole('button', { name: 'Edit message' }));
  const edit = screen.getByRole('textbox', { name: 'Edit message' });
  await user.clear(edit);
  await user.type(edit, 'Two{Enter}');
  expect(await screen.findByText('Second answer')).toBeTruthy();
  expect(screen.queryByText('First answer')).toBe(null);
  expect(node.bodies('POST /v1/chat/completions').at(-1)).toMatchObject({
    messages: [{ role: 'user', content: 'Two' }],
  });
});

test('a deleted chat can be brought back', async () => {
  const { node, user } = open(servingPair());
  node.on('GET /v1/chats', () => [
    { id: 'chat-one', title: 'Knots', updatedAtMs: Date.now(), nMessages: 2 },
  ]);
  await user.click(await screen.findByRole('button', { name: 'Delete Knots' }));
  expect(screen.queryByRole('button', { name: 'Knots' })).toBe(null);
  await user.click(screen.getByRole('button', { name: 'Undo' }));
  expect(await screen.findByRole('button', { name: 'Knots' })).toBeTruthy();
});

test('a chat is renamed in place', async () => {
  const { node, user } = open(servingPair());
  node.on('GET /v1/chats', () => [
    { id: 'chat-one', title: 'Knots', updatedAtMs: Date.now(), nMessages: 2 },
  ]);
  node.on('GET /v1/chats/chat-one', () => ({
    id: 'chat-one',
    title: 'Knots',
    model: null,
    messages: [],
  }));
  await user.click(await screen.findByRole('button', { name: 'Rename Knots' }));
  const title = screen.getByRole('textbox', { name: 'Title of the chat' });
  await user.clear(title);
  await user.type(title, 'Bends{Enter}');
  expect(await screen.findByRole('button', { name: 'Bends' })).toBeTruthy();
  expect(node.bodies('PUT /v1/chats/chat-one')).toMatchObject([{ title: 'Bends' }]);
});
