import { expect, test } from 'vitest';
import { clusterView, deploymentView, GIB, modelView } from '../testing/cluster';
import { modelsKey, modelToOffer } from './models.svelte';

test('the largest model that fits is offered', () => {
  const models = [
    modelView('small', { sizeBytes: GIB }),
    modelView('large', { sizeBytes: 8 * GIB }),
    modelView('huge', { sizeBytes: 40 * GIB }),
    modelView('odd', { sizeBytes: 9 * GIB, obstacle: 'not a llama' }),
  ];
  expect(modelToOffer(models, 10 * GIB)?.id).toBe('large');
  expect(modelToOffer(models, GIB / 2)).toBe(null);
});

test('models are asked for again when a download ends, not while it goes on', () => {
  const download = { model: 'm', doneBytes: 1, totalBytes: 9, bytesPerSec: 1, error: null };
  const before = modelsKey(clusterView({ downloads: [download] }));
  expect(modelsKey(clusterView({ downloads: [{ ...download, doneBytes: 5 }] }))).toBe(before);
  expect(modelsKey(clusterView())).not.toBe(before);
});

test('models are asked for again when a deployment begins to serve', () => {
  const loading = modelsKey(clusterView({ deployments: [deploymentView(['studio'], 'loading')] }));
  const serving = modelsKey(clusterView({ deployments: [deploymentView(['studio'])] }));
  expect(serving).not.toBe(loading);
});
