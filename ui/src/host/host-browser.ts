// A browser tab. The token comes in the address's fragment, which no server ever sees.
import type { Host } from './host';

const TOKEN_KEY = 'macrame.token';

export function browserHost(location: Location, storage: Storage, history: History): Host {
  const fromAddress = tokenIn(location.hash);
  if (fromAddress !== null) {
    storage.setItem(TOKEN_KEY, fromAddress);
    // Out of the address bar, so that a copied address or a screenshot does not give the node away.
    history.replaceState(history.state, '', location.pathname + location.search);
  }
  const token = storage.getItem(TOKEN_KEY) ?? '';
  return {
    kind: 'browser',
    can: { autostart: false, revealFolder: false },
    api: () => ({ baseUrl: location.origin, token }),
    revealFolder: () => Promise.reject(new Error('a browser cannot open a folder')),
    autostart: () => Promise.resolve(false),
    setAutostart: () => Promise.reject(new Error('a browser cannot start programs at login')),
  };
}

/** `#token=…` as the node prints it; any other fragment is none of ours. */
function tokenIn(fragment: string): string | null {
  const token = new URLSearchParams(fragment.replace(/^#/, '')).get('token');
  return token === '' ? null : token;
}
