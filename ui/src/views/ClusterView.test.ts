// The cluster view in each of its states, read as a reader of the page would: by role and name.
import { render, screen, within } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import { expect, test } from 'vitest';
import Root from '../App.svelte';
import type { ClusterView, ModelView } from '../api/types.gen';
import {
  clusterView,
  deploymentView,
  GIB,
  modelView,
  nodeView,
  servingPair,
} from '../testing/cluster';
import { FakeNode, refusal, testApp } from '../testing/node';

const SMOL = modelView('HuggingFaceTB/SmolLM2-135M-Instruct');

async function open(view: ClusterView, models: ModelView[] = []) {
  const node = new FakeNode(view, models);
  render(Root, { app: testApp('cluster') });
  await screen.findByRole('region', { name: 'Topology' });
  return { node, user: userEvent.setup() };
}

test('a node alone says how another one joins', async () => {
  await open(clusterView());
  expect(screen.getByRole('button', { name: /^studio, this machine: alive/ })).toBeTruthy();
  expect(screen.getByText(/This machine is alone/)).toBeTruthy();
  expect(screen.getByText(/None yet/)).toBeTruthy();
});

test('a node in the drawing tells its memory and its layers', async () => {
  await open(servingPair());
  expect(
    screen.getByRole('button', {
      name: 'mini: alive, 10 GiB free of 16 GiB, layers 15–29 of SmolLM2-135M-Instruct',
    }),
  ).toBeTruthy();
});

test('the table says the same as the drawing', async () => {
  const { user } = await open(servingPair());
  await user.click(screen.getByRole('button', { name: 'Show as table' }));
  const nodes = within(screen.getByRole('table', { name: 'Nodes' }));
  const row = nodes.getByRole('row', { name: /^mini/ });
  expect(
    within(row)
      .getAllByRole('cell')
      .map(({ textContent }) => textContent),
  ).toEqual([
    'alive',
    'layers 15–29 of 30, SmolLM2-135M-Instruct',
    '10 GiB',
    '16 GiB',
    '1 GiB',
    '512 MiB',
    '4 GiB',
  ]);
  const links = within(screen.getByRole('table', { name: 'Links' }));
  expect(
    links.getByRole('row', { name: /studio mini Ethernet 320 µs 1 Gbit\/s en0/ }),
  ).toBeTruthy();
});

test('a deployment on its way shows the bytes of each rank', async () => {
  await open(clusterView({ deployments: [deploymentView(['studio'], 'fetching')] }));
  const card = within(screen.getByRole('article', { name: 'SmolLM2-135M-Instruct' }));
  const bar = card.getByRole('progressbar', { name: 'studio fetches' });
  expect(bar.getAttribute('aria-valuetext')).toBe('20 MiB of 70 MiB');
});

test('a failed deployment says why, and can be deployed again or removed', async () => {
  const statusText = 'rank 1 on mini stopped: out of memory';
  const view = clusterView({ deployments: [deploymentView(['studio'], 'failed', { statusText })] });
  const { node, user } = await open(view);
  expect(screen.getByRole('alert').textContent).toContain(statusText);
  expect(screen.getByRole('button', { name: 'Deploy again…' })).toBeTruthy();
  await user.click(screen.getByRole('button', { name: 'Remove' }));
  expect(node.bodies('DELETE /v1/cluster/deployments/d1')).toHaveLength(1);
});

test('stopping a model that serves asks first', async () => {
  const { node, user } = await open(servingPair());
  await user.click(screen.getByRole('button', { name: 'Stop' }));
  expect(node.bodies('DELETE /v1/cluster/deployments/d1')).toHaveLength(0);
  await user.click(screen.getByRole('button', { name: 'Stop SmolLM2-135M-Instruct' }));
  expect(node.bodies('DELETE /v1/cluster/deployments/d1')).toHaveLength(1);
});

test('a warning comes with its fix', async () => {
  await open(
    clusterView({
      warnings: [{ code: 'w', severity: 'warning', text: 'slow link', fix: 'plug in the cable' }],
    }),
  );
  const item = screen.getByRole('list', { name: 'Warnings' });
  expect(item.textContent).toMatch(/Warning:\s*slow link.*plug in the cable/s);
});

test('a plan is shown before it is made true', async () => {
  const { node, user } = await open(servingPair(), [SMOL]);
  node.on('POST /v1/cluster/plan', () => ({
    model: SMOL.id,
    contextTokens: 4096,
    nLayers: 30,
    shares: [
      {
        rank: 0,
        nodeId: 'id-of-mini',
        nodeName: 'mini',
        firstLayer: 0,
        lastLayer: 29,
        weightBytes: GIB,
        kvBytes: GIB,
        reservedBytes: 3 * GIB,
        plannableBytes: 6 * GIB,
      },
    ],
  }));
  node.on('POST /v1/cluster/deployments', () => ({ id: 'd2' }));

  await user.click(await screen.findByRole('button', { name: 'Deploy SmolLM2-135M-Instruct…' }));
  const dialog = within(screen.getByRole('dialog', { name: 'Deploy SmolLM2-135M-Instruct' }));
  await user.click(dialog.getByRole('radio', { name: 'Spread over nodes of your choice' }));
  await user.click(dialog.getByRole('checkbox', { name: 'studio' }));
  expect(await dialog.findByText(/30 layers over 1 node, with a context of 4,096/)).toBeTruthy();
  expect(dialog.getByText(/takes 3 GiB of the 6 GiB it can give/)).toBeTruthy();
  await user.click(dialog.getByRole('button', { name: 'Deploy' }));

  const request = { model: SMOL.id, nodeIds: ['id-of-mini'] };
  expect(node.bodies('POST /v1/cluster/plan')).toEqual([
    { model: SMOL.id },
    { model: SMOL.id, nodeIds: ['id-of-studio', 'id-of-mini'] },
    request,
  ]);
  expect(node.bodies('POST /v1/cluster/deployments')).toEqual([request]);
});

test('a model that does not fit says what would help', async () => {
  const { node, user } = await open(clusterView(), [SMOL]);
  node.on('POST /v1/cluster/plan', () => refusal('2 GiB short on `studio`', ['close programs']));
  await user.click(await screen.findByRole('button', { name: 'Deploy SmolLM2-135M-Instruct…' }));
  const alert = await screen.findByRole('alert');
  expect(alert.textContent).toMatch(/2 GiB short on studio.*close programs/s);
  expect(screen.getByRole('button', { name: 'Deploy' }).hasAttribute('disabled')).toBe(true);
});

test('a machine that appeared is paired with the code it shows', async () => {
  const den = {
    id: 'id-of-den',
    name: 'den',
    version: '0.1.0',
    address: '10.0.0.9:1',
    obstacle: null,
  };
  const { node, user } = await open(clusterView({ sightings: [den] }));
  node.on('POST /v1/cluster/pair', () => ({ nodeId: den.id, name: den.name }));
  await user.click(screen.getByRole('button', { name: 'Pair den…' }));
  await user.type(screen.getByRole('textbox', { name: 'Code' }), '123 456');
  await user.click(screen.getByRole('button', { name: 'Pair' }));
  expect(node.bodies('POST /v1/cluster/pair')).toEqual([{ nodeId: 'id-of-den', code: '123456' }]);

  node.send([
    { type: 'sightings', sightings: [] },
    { type: 'node', node: nodeView('den') },
  ]);
  expect(await screen.findByText('Paired with den')).toBeTruthy();
  expect(screen.queryByRole('dialog')).toBe(null);
});

test('a machine that cannot join says why and offers nothing', async () => {
  const obstacle = 'speaks protocol 2, this node 1: update it';
  const den = { id: 'x', name: 'den', version: '9', address: 'a:1', obstacle };
  await open(clusterView({ sightings: [den] }));
  expect(screen.getByText(obstacle)).toBeTruthy();
  expect(screen.queryByRole('button', { name: 'Pair den…' })).toBe(null);
});

test('unpairing is asked twice', async () => {
  const { node, user } = await open(servingPair());
  await user.click(screen.getByRole('button', { name: /^mini/ }));
  await user.click(screen.getByRole('button', { name: 'Unpair…' }));
  await user.click(screen.getByRole('button', { name: 'Unpair mini' }));
  expect(node.bodies('DELETE /v1/cluster/nodes/id-of-mini')).toHaveLength(1);
});
