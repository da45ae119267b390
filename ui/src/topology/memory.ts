// What a node's memory holds, as the pieces of a bar.
import type { DeploymentView, MemoryView, RankView } from '../api/types.gen';

export type MemoryUse = 'weights' | 'kv' | 'reserved' | 'others' | 'free';

export const MEMORY_USE: Record<MemoryUse, string> = {
  weights: 'Weights',
  kv: 'KV cache',
  reserved: 'Workspace',
  others: 'Other programs',
  free: 'Free',
};

export interface MemoryPart {
  use: MemoryUse;
  bytes: number;
  /** Of the whole, 0 to 1; where the piece begins and how long it is. */
  start: number;
  length: number;
}

/** The pieces in the order they are drawn. Together they are the whole bar, whatever the figures say. */
export function memoryParts(memory: MemoryView): MemoryPart[] {
  const { totalBytes, weightBytes, kvBytes, reservedBytes, usedByOthersBytes } = memory;
  const workspaceBytes = Math.max(0, reservedBytes - weightBytes - kvBytes);
  const used: [MemoryUse, number][] = [
    ['weights', weightBytes],
    ['kv', kvBytes],
    ['reserved', workspaceBytes],
    ['others', usedByOthersBytes],
  ];
  const parts: MemoryPart[] = [];
  let start = 0;
  for (const [use, bytes] of used) {
    const length = totalBytes > 0 ? Math.min(bytes / totalBytes, 1 - start) : 0;
    parts.push({ use, bytes, start, length });
    start += length;
  }
  parts.push({ use: 'free', bytes: freeBytes(memory), start, length: 1 - start });
  return parts;
}

export function freeBytes(memory: MemoryView): number {
  const held = Math.max(memory.reservedBytes, memory.weightBytes + memory.kvBytes);
  return Math.max(0, memory.totalBytes - held - memory.usedByOthersBytes);
}

export interface Placed {
  deployment: DeploymentView;
  rank: RankView;
}

/** The ranks that a node holds. A failed deployment holds nothing any more. */
export function ranksOn(nodeId: string, deployments: readonly DeploymentView[]): Placed[] {
  const living = deployments.filter(({ status }) => status !== 'failed');
  return living.flatMap((deployment) =>
    deployment.ranks.filter((rank) => rank.nodeId === nodeId).map((rank) => ({ deployment, rank })),
  );
}
