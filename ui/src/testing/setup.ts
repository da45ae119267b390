// Before every unit test: nothing of the last one may be left in the page.
import { afterEach } from 'vitest';

afterEach(() => {
  localStorage.clear();
  sessionStorage.clear();
});
