import { expect, test } from 'vitest';
import { clusterView, deploymentView, linkView, nodeView, servingPair } from '../testing/cluster';
import { linkFigures, linkPairs } from './links';

test('both ways of a link are one cord, with the better measured one on it', () => {
  const view = {
    ...servingPair(),
    links: [
      linkView('studio', 'mini', { latencyUs: null, bandwidthBytesPerSec: null }),
      linkView('mini', 'studio'),
    ],
  };
  const pairs = linkPairs(view);
  expect(pairs).toHaveLength(1);
  expect(pairs[0]?.best.latencyUs).toBe(320);
});

test('a cord carries a plan where two ranks are neighbours, in their order', () => {
  const nodes = ['studio', 'mini', 'den'].map((name) => nodeView(name));
  const links = [linkView('studio', 'mini'), linkView('mini', 'den'), linkView('den', 'studio')];
  const deployments = [deploymentView(['den', 'mini', 'studio'], 'loading')];
  const flows = linkPairs(clusterView({ nodes, links, deployments })).map(({ flow }) => flow);
  expect(flows).toEqual([
    { from: 'id-of-mini', to: 'id-of-studio', serving: false },
    { from: 'id-of-den', to: 'id-of-mini', serving: false },
    null,
  ]);
});

test('a link to a node that is not there is not drawn', () => {
  expect(linkPairs(clusterView({ links: [linkView('studio', 'ghost')] }))).toEqual([]);
});

test('figures say what is known', () => {
  expect(linkFigures(linkView('a', 'b'))).toBe('320 µs · 1 Gbit/s');
  expect(linkFigures(linkView('a', 'b', { latencyUs: null }))).toBe('1 Gbit/s');
  expect(linkFigures(linkView('a', 'b', { latencyUs: null, bandwidthBytesPerSec: null }))).toBe(
    'not measured yet',
  );
});
