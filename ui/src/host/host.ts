// Everything the UI may ask of its surroundings: a browser tab, or the app's own window.

export interface Host {
  readonly kind: 'window' | 'browser';
  readonly can: { readonly autostart: boolean; readonly revealFolder: boolean };
  /** Where the node's API is, and the token that opens its control routes. */
  api(): { baseUrl: string; token: string };
  revealFolder(path: string): Promise<void>;
  /** Whether Macramé starts at login. */
  autostart(): Promise<boolean>;
  setAutostart(on: boolean): Promise<void>;
}

/** Finds out where the UI runs. The window's part is loaded only there. */
export async function openHost(): Promise<Host> {
  const { browserHost } = await import('./host-browser');
  const browser = browserHost(window.location, window.sessionStorage, window.history);
  if (!('__TAURI_INTERNALS__' in window)) return browser;
  const { tauriHost } = await import('./host-tauri');
  return tauriHost(browser.api());
}
