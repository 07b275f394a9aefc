/**
 * The end of a growing text, put together from snapshots and streamed pieces that may overlap, repeat or be missing.
 *
 * Invariants: a position is in bytes of UTF-8; text is never shown twice nor out of order; at most `BOUND` characters
 * are kept, so that a loud command stays cheap.
 */
export interface Tail {
  /** Bytes before `text`. */
  readonly offset: number;
  readonly text: string;
  /** Bytes before the end of `text`. */
  readonly end: number;
}

const BOUND = 256 * 1024;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Return `known` with the piece that begins at byte `offset`; a piece beyond a gap replaces what is known. */
export function joined(known: Tail | undefined, offset: number, text: string): Tail {
  const bytes = encoder.encode(text);
  const end = offset + bytes.length;
  if (known === undefined || offset > known.end) return { offset, text, end };
  if (end <= known.end) return known;
  const fresh = offset === known.end ? text : decoder.decode(bytes.subarray(known.end - offset));
  return bounded({ offset: known.offset, text: known.text + fresh, end });
}

function bounded(tail: Tail): Tail {
  if (tail.text.length <= BOUND) return tail;
  const from = tail.text.indexOf("\n", tail.text.length - BOUND / 2) + 1 || tail.text.length - BOUND / 2;
  const text = tail.text.slice(from);
  return { offset: tail.end - encoder.encode(text).length, text, end: tail.end };
}
