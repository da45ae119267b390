import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { draggable } from './drag';

const drag = { onmove: vi.fn(), ondrop: vi.fn(), oncancel: vi.fn() };
let handle: HTMLElement;
let detach: ReturnType<ReturnType<typeof draggable>>;

beforeEach(() => {
  vi.clearAllMocks();
  document.body.innerHTML = '<div id="handle"></div><div data-drop="n1"><b id="inside"></b></div>';
  handle = document.getElementById('handle') as HTMLElement;
  handle.setPointerCapture = () => undefined;
  const inside = document.getElementById('inside');
  // Right of 100 px lies the node.
  document.elementFromPoint = (x) => (x > 100 ? inside : handle);
  detach = draggable(drag)(handle);
});
afterEach(() => {
  detach?.();
  document.body.innerHTML = '';
});

const pointer = (type: string, clientX: number) =>
  handle.dispatchEvent(new PointerEvent(type, { clientX, clientY: 0, button: 0, bubbles: true }));

test('a drag is told what it is over, and where it ends', () => {
  pointer('pointerdown', 0);
  pointer('pointermove', 50);
  expect(drag.onmove).toHaveBeenLastCalledWith(null, { x: 50, y: 0 });
  pointer('pointermove', 150);
  expect(drag.onmove).toHaveBeenLastCalledWith('n1', { x: 150, y: 0 });
  pointer('pointerup', 150);
  expect(drag.ondrop).toHaveBeenCalledExactlyOnceWith('n1');
});

test('a click with an unsteady hand is no drag', () => {
  pointer('pointerdown', 0);
  pointer('pointermove', 3);
  pointer('pointerup', 3);
  expect(drag.onmove).not.toHaveBeenCalled();
  expect(drag.ondrop).not.toHaveBeenCalled();
});

test('Escape ends it without a drop', () => {
  pointer('pointerdown', 0);
  pointer('pointermove', 150);
  window.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
  pointer('pointerup', 150);
  expect(drag.oncancel).toHaveBeenCalledOnce();
  expect(drag.ondrop).not.toHaveBeenCalled();
});
