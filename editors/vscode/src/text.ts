/**
 * Text made safe and short for a person.
 *
 * Invariants: what leaves `escape` hides nothing and changes no direction; an unknown cost is `unknown`, never a number.
 */
import { MEANINGS } from "./protocol";

const HIDDEN =
  /(?![\n\t\u00a0\u202f ])[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Zs}\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu;
const TERMINAL = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])/g;

/** Show control, bidirectional, invisible and unassigned characters as `<U+....>`; keep line feeds and tabs. */
export function escape(text: string): string {
  return text.replace(
    HIDDEN,
    (each) => `<U+${(each.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}>`,
  );
}

/** Show a command's output: colours removed, of a line that was overwritten only what was last, the rest escaped. */
export function output(text: string): string {
  const plain = text.replace(TERMINAL, "").replace(/\r+\n/g, "\n");
  return escape(plain.includes("\r") ? plain.replace(/^.*\r(?!$)/gm, "") : plain);
}

/** Show a duration. */
export function seconds(value: number): string {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  return value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`;
}

/** Show a cost in US dollars. */
export function money(cost: number | undefined, known: boolean): string {
  if (known && cost !== undefined) return `$${cost.toFixed(4)}`;
  return cost ? `cost unknown (at least $${cost.toFixed(4)})` : "cost unknown";
}

/** Show a number of things: `1 step`, `2,000 steps`. */
export function count(number: number, thing: string): string {
  return `${number.toLocaleString("en-US")} ${thing}${number === 1 ? "" : "s"}`;
}

/** Return the path of a `file:` URI; anything else as it is. */
export function pathOf(uri: string): string {
  if (!uri.startsWith("file://")) return uri;
  try {
    return decodeURIComponent(new URL(uri).pathname);
  } catch {
    return uri;
  }
}

/** Return the last part of the path of a URI, escaped. */
export function nameOf(uri: string): string {
  const path = pathOf(uri).replace(/\/+$/, "");
  return escape(path.slice(path.lastIndexOf("/") + 1) || path || uri);
}

/** Return what a word of one of the protocol's vocabularies means; one that is not known comes back as it is. */
export function meaning(vocabulary: string, word: string): string {
  const words = MEANINGS[vocabulary] ?? {};
  return Object.hasOwn(words, word) ? (words[word] ?? word) : escape(word);
}
