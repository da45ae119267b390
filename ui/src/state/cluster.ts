// The cluster as the node tells it: a snapshot, then changes. Pure; `cluster.svelte.ts` does the talking.
import type {
  ClusterChange,
  ClusterEvent,
  ClusterSnapshot,
  ClusterView,
  DeploymentView,
  NodeView,
  RankView,
} from '../api/types.gen';

/** The next snapshot, or `gap` when a change was missed and the whole must be fetched again. */
export function apply(snapshot: ClusterSnapshot, event: ClusterEvent): ClusterSnapshot | 'gap' {
  // The stream may repeat what the snapshot already holds: it is opened first.
  if (event.rev <= snapshot.rev) return snapshot;
  if (event.rev !== snapshot.rev + 1) return 'gap';
  return { rev: event.rev, view: event.changes.reduce(changed, snapshot.view) };
}

function changed(view: ClusterView, change: ClusterChange): ClusterView {
  switch (change.type) {
    case 'node':
      return { ...view, nodes: inOrder(withItem(view.nodes, change.node)) };
    case 'nodeGone':
      return { ...view, nodes: view.nodes.filter((node) => node.id !== change.id) };
    case 'links':
      return { ...view, links: change.links };
    case 'deployment':
      return { ...view, deployments: withItem(view.deployments, change.deployment) };
    case 'deploymentGone':
      return { ...view, deployments: view.deployments.filter(({ id }) => id !== change.id) };
    case 'sightings':
      return { ...view, sightings: change.sightings };
    case 'pairing':
      return { ...view, pairing: change.pairing };
    case 'downloads':
      return { ...view, downloads: change.downloads };
    case 'warnings':
      return { ...view, warnings: change.warnings };
  }
}

/** In its old place if it was there, else at the end. */
function withItem<T extends { id: string }>(items: readonly T[], item: T): T[] {
  const idx = items.findIndex(({ id }) => id === item.id);
  return idx < 0 ? [...items, item] : items.with(idx, item);
}

/** This node first, then by name: as a snapshot has them. */
function inOrder(nodes: NodeView[]): NodeView[] {
  return nodes.toSorted(
    (a, b) =>
      Number(b.isSelf) - Number(a.isSelf) || Number(a.name > b.name) - Number(a.name < b.name),
  );
}

/** The models that can be asked now, each once, in the order they were deployed. */
export function servedModels(view: ClusterView): string[] {
  const serving = view.deployments.filter(({ status }) => status === 'serving');
  return [...new Set(serving.map(({ model }) => model))];
}

/** How long to wait before the `attempt`-th reconnection, counted from zero: 0.5 s doubling to 10 s. */
export function backOffMs(attempt: number): number {
  const FIRST_MS = 500;
  // A node that restarts is back within seconds; a longer wait would only look broken.
  const LONGEST_MS = 10_000;
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** attempt);
}

/** Bytes that all ranks of a deployment have fetched so far, and will have. */
export function deploymentProgress(deployment: DeploymentView): {
  doneBytes: number;
  totalBytes: number;
} {
  const sum = (of: (rank: RankView) => number) =>
    deployment.ranks.reduce((total, rank) => total + of(rank), 0);
  return {
    doneBytes: sum(({ fetchedBytes }) => fetchedBytes),
    totalBytes: sum(({ fetchTotalBytes }) => fetchTotalBytes),
  };
}
