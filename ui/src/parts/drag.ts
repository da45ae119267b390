// Dragging by pointer events. HTML5 drag events do not reach the page in every window, and cannot be cancelled by Escape everywhere.
import type { Attachment } from 'svelte/attachments';

export interface Drag {
  /** `target` is the `data-drop` of what is under the pointer, if anything there takes a drop. */
  onmove: (target: string | null, at: { x: number; y: number }) => void;
  ondrop: (target: string | null) => void;
  oncancel: () => void;
}

/** Less is a click with an unsteady hand. */
const START_PX = 6;

export function draggable(drag: Drag): Attachment<HTMLElement> {
  return (handle) => {
    let origin: { x: number; y: number } | null = null;
    let dragging = false;

    const end = () => {
      origin = null;
      dragging = false;
      removeEventListener('keydown', onkeydown, true);
    };
    const onkeydown = (event: KeyboardEvent) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      end();
      drag.oncancel();
    };
    const onpointerdown = (event: PointerEvent) => {
      if (event.button !== 0) return;
      origin = { x: event.clientX, y: event.clientY };
      // From the first moment: a quick hand leaves the handle between two events.
      handle.setPointerCapture(event.pointerId);
    };
    const onpointermove = (event: PointerEvent) => {
      if (origin === null) return;
      const at = { x: event.clientX, y: event.clientY };
      if (!dragging) {
        if (Math.hypot(at.x - origin.x, at.y - origin.y) < START_PX) return;
        dragging = true;
        addEventListener('keydown', onkeydown, true);
      }
      drag.onmove(targetAt(at), at);
    };
    const onpointerup = (event: PointerEvent) => {
      const dropped = dragging;
      end();
      if (dropped) drag.ondrop(targetAt({ x: event.clientX, y: event.clientY }));
    };
    const onpointercancel = () => {
      const cancelled = dragging;
      end();
      if (cancelled) drag.oncancel();
    };

    handle.addEventListener('pointerdown', onpointerdown);
    handle.addEventListener('pointermove', onpointermove);
    handle.addEventListener('pointerup', onpointerup);
    handle.addEventListener('pointercancel', onpointercancel);
    return () => {
      end();
      handle.removeEventListener('pointerdown', onpointerdown);
      handle.removeEventListener('pointermove', onpointermove);
      handle.removeEventListener('pointerup', onpointerup);
      handle.removeEventListener('pointercancel', onpointercancel);
    };
  };
}

function targetAt({ x, y }: { x: number; y: number }): string | null {
  const taker = document.elementFromPoint(x, y)?.closest('[data-drop]');
  return taker?.getAttribute('data-drop') ?? null;
}
