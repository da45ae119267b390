// Clusters for tests, in the shape the node sends them.
import type {
  ClusterView,
  DeploymentStatus,
  DeploymentView,
  LinkView,
  ModelView,
  NodeView,
} from '../api/types.gen';

export const GIB = 1024 ** 3;
export const MIB = 1024 ** 2;

export function nodeView(name: string, change: Partial<NodeView> = {}): NodeView {
  return {
    id: `id-of-${name}`,
    name,
    isSelf: false,
    status: 'alive',
    statusText: 'alive',
    version: '0.1.0',
    chip: 'Apple M4',
    os: 'macOS 26.2',
    rdma: null,
    memory: {
      totalBytes: 16 * GIB,
      usedByOthersBytes: 4 * GIB,
      usableBytes: 10 * GIB,
      reservedBytes: 2 * GIB,
      weightBytes: GIB,
      kvBytes: GIB / 2,
    },
    diskFreeBytes: 100 * GIB,
    ...change,
  };
}

export function linkView(from: string, to: string, change: Partial<LinkView> = {}): LinkView {
  return {
    from: `id-of-${from}`,
    to: `id-of-${to}`,
    kind: 'ethernet',
    interface: 'en0',
    latencyUs: 320,
    bandwidthBytesPerSec: 125_000_000,
    measuredAtMs: 1,
    ...change,
  };
}

/** Thirty layers over `names`, ten or fifteen or thirty each. */
export function deploymentView(
  names: readonly string[],
  status: DeploymentStatus = 'serving',
  change: Partial<DeploymentView> = {},
): DeploymentView {
  const N_LAYERS = 30;
  const each = N_LAYERS / names.length;
  return {
    id: 'd1',
    model: 'HuggingFaceTB/SmolLM2-135M-Instruct',
    ownerId: `id-of-${names[0]}`,
    status,
    statusText: status,
    contextTokens: 8192,
    nLayers: N_LAYERS,
    ranks: names.map((name, rank) => ({
      rank,
      nodeId: `id-of-${name}`,
      status,
      statusText: status,
      firstLayer: rank * each,
      lastLayer: (rank + 1) * each - 1,
      weightBytes: 70 * MIB,
      kvBytes: 45 * MIB,
      residentBytes: status === 'serving' ? 120 * MIB : 0,
      fetchedBytes: 20 * MIB,
      fetchTotalBytes: 70 * MIB,
    })),
    ...change,
  };
}

export function clusterView(change: Partial<ClusterView> = {}): ClusterView {
  return {
    selfId: 'id-of-studio',
    nodes: [nodeView('studio', { isSelf: true })],
    links: [],
    deployments: [],
    sightings: [],
    pairing: null,
    downloads: [],
    warnings: [],
    ...change,
  };
}

/** Two nodes and a model split over them. */
export function servingPair(): ClusterView {
  return clusterView({
    nodes: [nodeView('studio', { isSelf: true }), nodeView('mini')],
    links: [linkView('studio', 'mini'), linkView('mini', 'studio')],
    deployments: [deploymentView(['studio', 'mini'])],
  });
}

export function modelView(id: string, change: Partial<ModelView> = {}): ModelView {
  return {
    id,
    architecture: 'llama',
    quantisation: 'Q8_0',
    sizeBytes: 144 * MIB,
    nLayers: 30,
    contextMax: 8192,
    source: 'Hugging Face cache',
    obstacle: null,
    deploymentId: null,
    ...change,
  };
}
