// Figures as people read them: memory in binary units, links in decimal bits, as the program's own messages do.

const BINARY_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** `1.5 GiB`; three significant figures at most. */
export function formatBytes(bytes: number): string {
  let value = Math.max(0, bytes);
  let unitIdx = 0;
  while (value >= 1024 && unitIdx < BINARY_UNITS.length - 1) {
    value /= 1024;
    unitIdx += 1;
  }
  return `${threeFigures(value)} ${BINARY_UNITS[unitIdx]}`;
}

/** A download's rate, `12.4 MiB/s`. */
export const formatBytesPerSec = (bytesPerSec: number): string => `${formatBytes(bytesPerSec)}/s`;

/** A link's bandwidth, `9.41 Gbit/s`: decimal bits, as cables are sold. */
export function formatBandwidth(bytesPerSec: number): string {
  const bits = bytesPerSec * 8;
  if (bits >= 1e9) return `${threeFigures(bits / 1e9)} Gbit/s`;
  if (bits >= 1e6) return `${threeFigures(bits / 1e6)} Mbit/s`;
  return `${threeFigures(bits / 1e3)} kbit/s`;
}

/** A link's latency, `7.2 µs` or `1.9 ms`. */
export function formatLatency(us: number): string {
  return us < 1000 ? `${threeFigures(us)} µs` : `${threeFigures(us / 1000)} ms`;
}

/** `420 ms` or `1.8 s`. */
export function formatMillis(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${threeFigures(ms / 1000)} s`;
}

/** Time left, roughly: `40 s`, `3 min`, `2 h 5 min`. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 60) return `${minutes} min`;
  const rest = minutes % 60;
  return rest === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)} h ${rest} min`;
}

/** `0:47`, for a countdown. */
export function formatCountdown(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

/** `8,192`. */
export const formatCount = (count: number): string => count.toLocaleString('en');

/** Both ends included: `layers 0–14`, `layer 3`. */
export function formatLayers(first: number, last: number): string {
  return first === last ? `layer ${first}` : `layers ${first}–${last}`;
}

/** `today`, `yesterday`, `this week`, `earlier`: the headings of the history. */
export function formatDay(atMs: number, nowMs: number): string {
  const startOfToday = new Date(nowMs).setHours(0, 0, 0, 0);
  const DAY_MS = 86_400_000;
  if (atMs >= startOfToday) return 'Today';
  if (atMs >= startOfToday - DAY_MS) return 'Yesterday';
  if (atMs >= startOfToday - 6 * DAY_MS) return 'This week';
  return 'Earlier';
}

function threeFigures(value: number): string {
  if (value >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return value.toFixed(value >= 10 ? 1 : 2).replace(/\.?0+$/, '');
}

/**
 * A model's name without its owner: `SmolLM2-135M-Instruct` of `HuggingFaceTB/SmolLM2-135M-Instruct`. Where the id
 * names a file, that says more: `SmolLM2-Q4_0` of `org/SmolLM2-GGUF:SmolLM2-Q4_0.gguf`.
 */
export function shortModel(model: string): string {
  const name = model.slice(model.indexOf(':') + 1);
  return name.slice(name.lastIndexOf('/') + 1).replace(/(-\d{5}-of-\d{5})?\.gguf$/i, '');
}
