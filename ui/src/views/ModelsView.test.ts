// The models view in each of its states.
import { render, screen, within } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import { expect, test } from 'vitest';
import Root from '../App.svelte';
import type { DownloadView, ModelView } from '../api/types.gen';
import { clusterView, GIB, MIB, modelView } from '../testing/cluster';
import { FakeNode, refusal, testApp } from '../testing/node';

function open(models: ModelView[], downloads: DownloadView[] = []) {
  const node = new FakeNode(clusterView({ downloads }), models);
  render(Root, { app: testApp('models') });
  return { node, user: userEvent.setup() };
}

const download: DownloadView = {
  model: 'org/Large',
  doneBytes: GIB,
  totalBytes: 4 * GIB,
  bytesPerSec: 24 * MIB,
  error: null,
};

test('no models, and what to do about it', async () => {
  open([]);
  expect(await screen.findByText('No models here yet')).toBeTruthy();
});

test('a model that cannot run says why and is not offered', async () => {
  open([modelView('org/Odd', { architecture: null, obstacle: 'not a llama' })]);
  expect(await screen.findByText(/Cannot run here: not a llama/)).toBeTruthy();
  expect(screen.queryByRole('button', { name: 'Deploy Odd…' })).toBe(null);
});

test('a download shows its progress and can be cancelled', async () => {
  const { node, user } = open([], [download]);
  const bar = await screen.findByRole('progressbar', { name: 'Download of org/Large' });
  expect(bar.getAttribute('aria-valuenow')).toBe('25');
  expect(bar.getAttribute('aria-valuetext')).toBe('1 GiB of 4 GiB · 24 MiB/s · 2 min left');
  await user.click(screen.getByRole('button', { name: 'Cancel the download of org/Large' }));
  expect(node.bodies('DELETE /v1/cluster/downloads?model=org%2FLarge')).toHaveLength(1);
});

test('a download that ended badly says why and can be tried again', async () => {
  const { node, user } = open([], [{ ...download, error: 'disk full: free 3 GiB' }]);
  const alert = within(await screen.findByRole('alert'));
  expect(alert.getByText('disk full: free 3 GiB')).toBeTruthy();
  await user.click(alert.getByRole('button', { name: 'Try again' }));
  expect(node.bodies('POST /v1/cluster/downloads')).toEqual([{ model: 'org/Large' }]);
});

test('a model is asked for by its name, and a refusal shows its hints', async () => {
  const { node, user } = open([]);
  node.on('POST /v1/cluster/downloads', () => refusal('no such model', ['check the spelling']));
  await user.type(screen.getByRole('textbox', { name: 'Download a model' }), ' org/Typo {Enter}');
  expect((await screen.findByRole('alert')).textContent).toMatch(
    /no such model.*check the spelling/s,
  );
  expect(node.bodies('POST /v1/cluster/downloads')).toEqual([{ model: 'org/Typo' }]);
});
