/**
 * What the extension and its page say to each other.
 *
 * Invariants: the page is not trusted with anything but the person's wishes; what it sends is checked member by member
 * before it is used, and what does not fit is ignored.
 */
import type { ContextItem, Snapshot, Step, StreamParams } from "./protocol";

/** How the server is, for the page and the status bar. */
export interface ServerState {
  readonly state: "starting" | "ready" | "restarting" | "failed" | "missing" | "no-folder";
  /** For a person; with the way out if there is one to take. */
  readonly text: string;
}

/** A piece of the editor's knowledge that the person can give along with a prompt. */
export interface Chip {
  readonly id: ContextItem["kind"];
  readonly label: string;
}

/** What would be shown about the text that the person is editing. */
export interface Preview {
  readonly command: string;
  readonly display: string;
  readonly warnings: readonly string[];
  readonly verdict: string;
}

export type ToPage =
  | { type: "server"; server: ServerState }
  | { type: "session"; snapshot: Snapshot | undefined; steps: readonly Step[]; others: number }
  | { type: "snapshot"; snapshot: Snapshot }
  | { type: "steps"; sessionId: string; steps: readonly Step[] }
  | { type: "piece"; piece: StreamParams }
  | { type: "others"; others: number }
  | { type: "chips"; chips: readonly Chip[] }
  | { type: "notice"; text: string }
  | { type: "preview"; digest: string; preview: Preview }
  | { type: "wish"; wish: Wish };

/** What a command of the palette asks the page to do with the approval on screen. */
export type Wish = "approve" | "edit" | "reject" | "stop" | "remember" | "focus" | "prompt";

export type FromPage =
  | { type: "ready" }
  | { type: "prompt"; text: string; chips: string[] }
  | { type: "decide"; sessionId: string; callId: string; digest: string; decision: Word; more: More }
  | { type: "preview"; sessionId: string; digest: string; command: string }
  | { type: "act"; act: PageAct; id: string }
  | { type: "focused"; focused: boolean }
  | { type: "shown"; digest: string }
  | { type: "refused"; text: string };

type Word = "approve" | "approve_edited" | "reject" | "stop";

export interface More {
  command?: string;
  reason?: string;
  remember?: string;
}

const ACTS = [
  "cancel",
  "cancelCall",
  "detach",
  "continue",
  "withdraw",
  "mode",
  "saveAll",
  "openOutput",
  "openChanges",
  "showLog",
  "restart",
  "setServer",
  "sessions",
  "showOther",
  "walkthrough",
] as const;
export type PageAct = (typeof ACTS)[number];
const WORDS: readonly string[] = ["approve", "approve_edited", "reject", "stop"];
const LONGEST = 1024 * 1024;

/** Read what the page sent; undefined if it is none of its messages. */
export function fromPage(value: unknown): FromPage | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const given = value as Record<string, unknown>;
  switch (given["type"]) {
    case "ready":
      return { type: "ready" };
    case "prompt":
      return isText(given["text"]) && isTexts(given["chips"])
        ? { type: "prompt", text: given["text"], chips: given["chips"] }
        : undefined;
    case "act":
      return isText(given["id"]) && ACTS.some((act) => act === given["act"])
        ? { type: "act", act: given["act"] as PageAct, id: given["id"] }
        : undefined;
    case "focused":
      return typeof given["focused"] === "boolean" ? { type: "focused", focused: given["focused"] } : undefined;
    case "shown":
      return isText(given["digest"]) ? { type: "shown", digest: given["digest"] } : undefined;
    case "refused":
      return isText(given["text"]) ? { type: "refused", text: given["text"] } : undefined;
    default:
      return aboutApproval(given);
  }
}

function aboutApproval(given: Record<string, unknown>): FromPage | undefined {
  const { type, sessionId, callId, digest, decision, command } = given;
  if (!isText(sessionId) || !isText(digest)) return undefined;
  if (type === "preview") return isText(command) ? { type, sessionId, digest, command } : undefined;
  if (type !== "decide" || !isText(callId) || !isText(decision) || !WORDS.includes(decision)) return undefined;
  const more = moreOf(given["more"]);
  return more && { type, sessionId, callId, digest, decision: decision as Word, more };
}

function moreOf(value: unknown): More | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const more: More = {};
  for (const name of ["command", "reason", "remember"] as const) {
    const member = (value as Record<string, unknown>)[name];
    if (member === undefined) continue;
    if (!isText(member)) return undefined;
    more[name] = member;
  }
  return more;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= LONGEST;
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.length <= 16 && value.every(isText);
}
