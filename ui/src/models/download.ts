// A download in words.
import type { DownloadView } from '../api/types.gen';
import { formatBytes, formatBytesPerSec, formatDuration } from '../format';

/** `1.2 GiB of 4 GiB · 12.4 MiB/s · 3 min left`, as far as it is known. */
export function downloadText({ doneBytes, totalBytes, bytesPerSec }: DownloadView): string {
  if (totalBytes === 0) return 'asking for its size…';
  const parts = [`${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}`];
  if (bytesPerSec > 0) {
    parts.push(formatBytesPerSec(bytesPerSec));
    if (doneBytes < totalBytes) {
      parts.push(`${formatDuration((totalBytes - doneBytes) / bytesPerSec)} left`);
    }
  }
  return parts.join(' · ');
}
