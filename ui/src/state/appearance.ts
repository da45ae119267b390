// Light, dark, or as the system has it; remembered by this browser alone.

export const APPEARANCES = ['system', 'light', 'dark'] as const;
export type Appearance = (typeof APPEARANCES)[number];

const KEY = 'macrame.appearance';

export function readAppearance(storage: Storage): Appearance {
  const stored = storage.getItem(KEY);
  return APPEARANCES.find((appearance) => appearance === stored) ?? 'system';
}

export function applyAppearance(appearance: Appearance, storage: Storage, root: HTMLElement): void {
  storage.setItem(KEY, appearance);
  root.dataset['appearance'] = appearance;
}
