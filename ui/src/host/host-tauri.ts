// The app's own window: the same HTTP as everywhere, and a few calls to the shell around it.
import { invoke } from '@tauri-apps/api/core';
import type { Host } from './host';

/** Commands of `src-tauri`. */
const COMMAND = {
  revealFolder: 'reveal_folder',
  autostart: 'autostart',
  setAutostart: 'set_autostart',
} as const;

export function tauriHost(api: { baseUrl: string; token: string }): Host {
  return {
    kind: 'window',
    can: { autostart: true, revealFolder: true },
    api: () => api,
    revealFolder: (path) => invoke(COMMAND.revealFolder, { path }),
    autostart: () => invoke<boolean>(COMMAND.autostart),
    setAutostart: (on) => invoke(COMMAND.setAutostart, { on }),
  };
}
