import { expect, test } from 'vitest';
import type { ClusterChange, ClusterSnapshot } from '../api/types.gen';
import { clusterView, deploymentView, linkView, nodeView, servingPair } from '../testing/cluster';
import { apply, backOffMs, deploymentProgress, servedModels } from './cluster';

const snapshot: ClusterSnapshot = { rev: 4, view: servingPair() };

const after = (...changes: ClusterChange[]) => {
  const next = apply(snapshot, { rev: 5, changes });
  if (next === 'gap') throw new Error('unexpected gap');
  expect(next.rev).toBe(5);
  return next.view;
};

test('a missed change is a gap', () => {
  expect(apply(snapshot, { rev: 6, changes: [] })).toBe('gap');
});

test('what the snapshot already holds is passed over', () => {
  const stale = { rev: 4, changes: [{ type: 'nodeGone' as const, id: 'id-of-mini' }] };
  expect(apply(snapshot, stale)).toBe(snapshot);
});

test('the snapshot that was given is never changed', () => {
  const before = structuredClone(snapshot);
  after({ type: 'nodeGone', id: 'id-of-mini' });
  expect(snapshot).toEqual(before);
});

test('a new node takes its place by name, after this one', () => {
  const view = after({ type: 'node', node: nodeView('attic') });
  expect(view.nodes.map(({ name }) => name)).toEqual(['studio', 'attic', 'mini']);
});

test('a known node is replaced', () => {
  const view = after({ type: 'node', node: nodeView('mini', { status: 'suspect' }) });
  expect(view.nodes.map(({ name, status }) => [name, status])).toEqual([
    ['studio', 'alive'],
    ['mini', 'suspect'],
  ]);
});

test('several changes are applied in order', () => {
  const view = after(
    { type: 'nodeGone', id: 'id-of-mini' },
    { type: 'links', links: [] },
    { type: 'deploymentGone', id: 'd1' },
    { type: 'deployment', deployment: deploymentView(['studio'], 'loading', { id: 'd2' }) },
    { type: 'pairing', pairing: { code: '123456', expiresAtMs: 9 } },
    { type: 'warnings', warnings: [{ code: 'w', severity: 'note', text: 't', fix: 'f' }] },
  );
  expect(view.nodes).toHaveLength(1);
  expect(view.links).toEqual([]);
  expect(view.deployments.map(({ id }) => id)).toEqual(['d2']);
  expect(view.pairing?.code).toBe('123456');
  expect(view.warnings).toHaveLength(1);
});

test('sightings and downloads are taken whole', () => {
  const sighting = { id: 's', name: 'den', version: '1', address: 'a:1', obstacle: null };
  const download = { model: 'm', doneBytes: 1, totalBytes: 2, bytesPerSec: 1, error: null };
  const view = after(
    { type: 'sightings', sightings: [sighting] },
    { type: 'downloads', downloads: [download] },
    { type: 'links', links: [linkView('studio', 'mini', { kind: 'rdma' })] },
  );
  expect(view.sightings).toEqual([sighting]);
  expect(view.downloads).toEqual([download]);
  expect(view.links.map(({ kind }) => kind)).toEqual(['rdma']);
});

test('a model served twice is offered once, and one that loads not at all', () => {
  const view = clusterView({
    deployments: [
      deploymentView(['studio'], 'serving'),
      deploymentView(['mini'], 'serving', { id: 'd2' }),
      deploymentView(['mini'], 'loading', { id: 'd3', model: 'other' }),
    ],
  });
  expect(servedModels(view)).toEqual(['HuggingFaceTB/SmolLM2-135M-Instruct']);
});

test('progress sums over the ranks', () => {
  const { doneBytes, totalBytes } = deploymentProgress(deploymentView(['a', 'b'], 'fetching'));
  expect([doneBytes, totalBytes]).toEqual([40 * 1024 ** 2, 140 * 1024 ** 2]);
});

test('reconnecting backs off to ten seconds', () => {
  expect([0, 1, 2, 10].map(backOffMs)).toEqual([500, 1000, 2000, 10_000]);
});
