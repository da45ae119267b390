// Links as they are drawn: one cord per pair of nodes, though both ends measure it.
import type { ClusterView, DeploymentView, LinkKindView, LinkView } from '../api/types.gen';
import { formatBandwidth, formatLatency } from '../format';

export const LINK_KIND: Record<LinkKindView, string> = {
  loopback: 'Loopback',
  wifi: 'Wi-Fi',
  ethernet: 'Ethernet',
  thunderbolt: 'Thunderbolt',
  rdma: 'RDMA',
};

/** Both ways between two nodes; `best` is the measurement shown on the cord. */
export interface LinkPair {
  key: string;
  a: string;
  b: string;
  best: LinkView;
  /** It carries a living plan: from which node to which, in rank order. */
  flow: { from: string; to: string; serving: boolean } | null;
}

export function linkPairs(view: ClusterView): LinkPair[] {
  const pairs = new Map<string, LinkPair>();
  const known = new Set(view.nodes.map(({ id }) => id));
  for (const link of view.links) {
    if (!known.has(link.from) || !known.has(link.to) || link.from === link.to) continue;
    const [a, b] = link.from < link.to ? [link.from, link.to] : [link.to, link.from];
    const key = `${a} ${b}`;
    const before = pairs.get(key);
    if (before === undefined) {
      pairs.set(key, { key, a, b, best: link, flow: flowBetween(view.deployments, a, b) });
    } else if (nMeasured(link) > nMeasured(before.best)) {
      pairs.set(key, { ...before, best: link });
    }
  }
  return [...pairs.values()];
}

function flowBetween(deployments: readonly DeploymentView[], a: string, b: string) {
  for (const { status, ranks } of deployments) {
    if (status === 'failed') continue;
    for (const [idx, { nodeId: from }] of ranks.entries()) {
      const to = ranks[idx + 1]?.nodeId;
      if ((from === a && to === b) || (from === b && to === a)) {
        return { from, to, serving: status === 'serving' };
      }
    }
  }
  return null;
}

const nMeasured = ({ kind, latencyUs, bandwidthBytesPerSec }: LinkView): number =>
  [kind, latencyUs, bandwidthBytesPerSec].filter((value) => value !== null).length;

/** `0.32 ms · 18 Gbit/s`, or that nothing is known yet. */
export function linkFigures({ latencyUs, bandwidthBytesPerSec }: LinkView): string {
  const figures = [
    latencyUs === null ? null : formatLatency(latencyUs),
    bandwidthBytesPerSec === null ? null : formatBandwidth(bandwidthBytesPerSec),
  ].filter((figure) => figure !== null);
  return figures.length > 0 ? figures.join(' · ') : 'not measured yet';
}

export const linkKind = (link: LinkView): string =>
  link.kind === null ? 'Link' : LINK_KIND[link.kind];
