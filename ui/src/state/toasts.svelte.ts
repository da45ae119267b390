// Short messages at the edge of the window: something was done, or could not be.
import { ApiError } from '../api/client';

export interface Toast {
  id: number;
  tone: 'note' | 'problem';
  text: string;
  hints: readonly string[];
  action?: { label: string; run: () => void };
}

/** More would cover the page; the oldest leave first. */
const TOASTS_MAX = 3;
const NOTE_MS = 6000;
/** An error has hints to read. */
const PROBLEM_MS = 15_000;

export class Toasts {
  list = $state.raw<Toast[]>([]);
  #nextId = 0;

  note(text: string, action?: Toast['action']): void {
    this.#show({ tone: 'note', text, hints: [], ...(action && { action }) }, NOTE_MS);
  }

  failed(thrown: unknown): void {
    const error = ApiError.from(thrown);
    this.#show({ tone: 'problem', text: error.message, hints: error.hints }, PROBLEM_MS);
  }

  /** Runs `work` and says so if it fails. */
  async watch<T>(work: Promise<T>): Promise<T | undefined> {
    try {
      return await work;
    } catch (thrown) {
      this.failed(thrown);
      return undefined;
    }
  }

  dismiss(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id);
  }

  #show(toast: Omit<Toast, 'id'>, forMs: number): void {
    const id = this.#nextId++;
    this.list = [...this.list, { ...toast, id }].slice(-TOASTS_MAX);
    setTimeout(() => this.dismiss(id), forMs);
  }
}
