/**
 * What the page shows: a pure reducer over what the server says and what the person does.
 *
 * Invariants: drawn only from snapshots, and older revisions are dropped; the approval on screen is the first pending
 * call of the snapshot, and everything that the person began about it ends when its digest changes.
 */
import type { Chip, Preview, ServerState, ToPage } from "./messages";
import type { Call, Snapshot, Step, StreamParams } from "./protocol";
import { joined, type Tail } from "./tail";

/** What the person is doing about the approval on screen. */
export interface Approving {
  readonly digest: string;
  readonly doing: "choosing" | "editing" | "rejecting";
  /** Whether the end of the text was on screen. */
  readonly endSeen: boolean;
  /** Whether a decision is on its way. */
  readonly sent: boolean;
  readonly preview?: Preview;
}

export interface View {
  readonly server: ServerState;
  readonly snapshot: Snapshot | undefined;
  /** In order; the current one last. */
  readonly steps: readonly Step[];
  /** Streamed texts, by `tailKey`. */
  readonly tails: ReadonlyMap<string, Tail>;
  /** Calls that wait in sessions which are not shown. */
  readonly others: number;
  readonly chips: readonly Chip[];
  /** The chips that the person chose. */
  readonly chosen: readonly string[];
  readonly notice: string;
  readonly approving: Approving | undefined;
}

export type Change =
  | Exclude<ToPage, { type: "wish" }>
  | { type: "doing"; doing: Approving["doing"] }
  | { type: "endSeen" }
  | { type: "sent" }
  | { type: "chip"; id: string }
  | { type: "prompted" };

export const EMPTY: View = {
  server: { state: "starting", text: "Handrail's server is starting." },
  snapshot: undefined,
  steps: [],
  tails: new Map(),
  others: 0,
  chips: [],
  chosen: [],
  notice: "",
  approving: undefined,
};

/** Return the view after a change. */
export function reduce(view: View, change: Change): View {
  switch (change.type) {
    case "server":
      return { ...view, server: change.server };
    case "session":
      return switched(view, change.snapshot, change.steps, change.others);
    case "snapshot":
      return updated(view, change.snapshot);
    case "steps":
      return change.sessionId === view.snapshot?.sessionId
        ? { ...view, steps: merged(view.steps, change.steps) }
        : view;
    case "piece":
      return streamed(view, change.piece);
    case "others":
      return { ...view, others: change.others };
    case "notice":
      return { ...view, notice: change.text, approving: view.approving && { ...view.approving, sent: false } };
    case "chips":
    case "chip":
    case "prompted":
      return withChips(view, change);
    default:
      return approving(view, change);
  }
}

/** The call that is asked about now, if one is. Only a state that is known to be an approval shows one. */
export function asked(snapshot: Snapshot | undefined): Call | undefined {
  if (snapshot?.state !== "awaiting_approval") return undefined;
  return snapshot.step?.calls.find((call) => call.callId === snapshot.pending[0]);
}

/** Whether the session is at work, so that a prompt is queued instead of sent. */
export function working(snapshot: Snapshot | undefined): boolean {
  return snapshot !== undefined && !["idle", "closed"].includes(snapshot.state);
}

const UNFINISHED = ["step_done", "interrupted", "max_steps", "cost_limit", "time_limit", "model_error", "cancelled"];

/** Whether the last turn can go on without a prompt. */
export function unfinished(snapshot: Snapshot | undefined): boolean {
  return snapshot?.state === "idle" && UNFINISHED.includes(snapshot.stopReason ?? "");
}

/** The key of a streamed text. */
export function tailKey(stepId: string, channel: string, callId = ""): string {
  return `${stepId}/${channel}/${callId}`;
}

function switched(view: View, snapshot: Snapshot | undefined, steps: readonly Step[], others: number): View {
  const empty = { ...view, snapshot: undefined, steps, others, tails: new Map(), notice: "", approving: undefined };
  return snapshot ? updated(empty, snapshot) : empty;
}

function updated(view: View, snapshot: Snapshot): View {
  const known = view.snapshot;
  if (known && (known.sessionId !== snapshot.sessionId || known.revision > snapshot.revision)) return view;
  const steps = snapshot.step ? merged(view.steps, [snapshot.step]) : view.steps;
  const digest = asked(snapshot)?.digest;
  let now = view.approving;
  if (digest === undefined) now = undefined;
  else if (digest !== now?.digest) now = { digest, doing: "choosing", endSeen: false, sent: false };
  const moved = known?.revision !== snapshot.revision;
  return {
    ...view,
    snapshot,
    steps,
    tails: liveTails(view, snapshot),
    notice: moved && now === undefined ? "" : view.notice,
    approving: now,
  };
}

/** Merge the tails of the current step; those of earlier steps and attempts are over. */
function liveTails(view: View, snapshot: Snapshot): ReadonlyMap<string, Tail> {
  const step = snapshot.step;
  if (!step) return new Map();
  const last = view.snapshot?.step;
  const known = last?.stepId === step.stepId && last.attempt === step.attempt ? view.tails : new Map<string, Tail>();
  const tails = new Map<string, Tail>();
  const add = (key: string, offset: number, text: string) => tails.set(key, joined(known.get(key), offset, text));
  add(tailKey(step.stepId, "text"), step.textOffset, step.text);
  add(tailKey(step.stepId, "reasoning"), step.reasoningOffset, step.reasoning);
  for (const call of [
    ...step.calls,
    ...snapshot.detached,
    ...(snapshot.personCommand ? [snapshot.personCommand] : []),
  ]) {
    if (call.status !== "running" && !snapshot.detached.includes(call)) continue;
    add(tailKey("", "output", call.callId), call.result?.outputOffset ?? 0, call.result?.outputTail ?? "");
  }
  return tails;
}

function streamed(view: View, piece: StreamParams): View {
  const snapshot = view.snapshot;
  const step = snapshot?.step;
  if (snapshot?.sessionId !== piece.sessionId || !step) return view;
  const output = piece.channel === "output";
  if (!output && (piece.stepId !== step.stepId || piece.attempt !== step.attempt)) return view;
  const key = output ? tailKey("", "output", piece.callId) : tailKey(step.stepId, piece.channel);
  const tails = new Map(view.tails);
  tails.set(key, joined(tails.get(key), piece.offset, piece.text));
  return { ...view, tails };
}

function merged(known: readonly Step[], fresh: readonly Step[]): readonly Step[] {
  const first = fresh[0]?.index ?? Infinity;
  const last = known.at(-1)?.index ?? 0;
  if (first > last) return [...known, ...fresh];
  const byIndex = new Map([...known, ...fresh].map((step) => [step.index, step]));
  return [...byIndex.values()].sort((one, other) => one.index - other.index);
}

function withChips(view: View, change: Extract<Change, { type: "chips" | "chip" | "prompted" }>): View {
  if (change.type === "prompted") return { ...view, chosen: [], notice: "" };
  if (change.type === "chips") {
    const offered = change.chips.map((chip) => chip.id as string);
    return { ...view, chips: change.chips, chosen: view.chosen.filter((id) => offered.includes(id)) };
  }
  const without = view.chosen.filter((id) => id !== change.id);
  return { ...view, chosen: without.length < view.chosen.length ? without : [...view.chosen, change.id] };
}

function approving(view: View, change: Extract<Change, { type: "preview" | "doing" | "endSeen" | "sent" }>): View {
  const now = view.approving;
  if (!now) return view;
  switch (change.type) {
    case "doing": {
      const { digest, endSeen, sent } = now;
      return { ...view, approving: { digest, endSeen, sent, doing: change.doing } };
    }
    case "endSeen":
      return now.endSeen ? view : { ...view, approving: { ...now, endSeen: true } };
    case "sent":
      return { ...view, notice: "", approving: { ...now, sent: true } };
    case "preview":
      return now.digest === change.digest && now.doing === "editing"
        ? { ...view, approving: { ...now, preview: change.preview } }
        : view;
  }
}
