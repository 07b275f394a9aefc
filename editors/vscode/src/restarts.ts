/**
 * How often, and after which pause, a server that ended by itself is started again.
 *
 * Invariants: a crash now and then is repaired without a question; a crash loop ends.
 */
const WINDOW_MS = 3 * 60_000;
const MOST = 5;
const PAUSES_MS = [0, 500, 1000, 2000];

export class Restarts {
  private ends: number[] = [];

  /** Tell of an end at `now` (ms); return the pause before the next start, or undefined if there shall be none. */
  after(now: number): number | undefined {
    this.ends = [...this.ends.filter((end) => now - end < WINDOW_MS), now];
    return this.ends.length >= MOST ? undefined : PAUSES_MS[this.ends.length - 1];
  }

  /** The person starts it again: count from nothing. */
  forget(): void {
    this.ends = [];
  }
}
