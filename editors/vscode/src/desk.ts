/**
 * The sessions that this window has open: their newest snapshots, which one is shown, and what can be asked of it.
 *
 * Invariants: a snapshot is replaced only by one of the same or a newer revision; a decision goes out only if its call
 * waits and its digest is that of the newest snapshot; nothing is ever decided here.
 */
import type { More, ToPage } from "./messages";
import type { ContextItem, Decision, Requests, SessionInfo, Settings, Snapshot, Step, StreamParams } from "./protocol";
import { count } from "./text";
import { working } from "./view";

/** Sends a request of the protocol; fails with what a person can be told. */
export type Ask = <M extends keyof Requests>(
  method: M,
  params: Requests[M]["params"],
) => Promise<Requests[M]["result"]>;

const PAGE_OF_STEPS = 50;

/** Thrown for what the person can put right; the message says how. */
export class Refused extends Error {}

export class Desk {
  private readonly snapshots = new Map<string, Snapshot>();
  private steps: readonly Step[] = [];
  private shown = "";

  /** `changed` is called after every change of what a person could see. */
  constructor(
    private readonly ask: Ask,
    private readonly show: (message: ToPage) => void,
    private readonly changed: () => void,
  ) {}

  /** The session that is shown. */
  get current(): Snapshot | undefined {
    return this.snapshots.get(this.shown);
  }

  get all(): readonly Snapshot[] {
    return [...this.snapshots.values()];
  }

  /** The first session with a call that waits, the shown one before others. */
  get waiting(): Snapshot | undefined {
    return [...(this.current ? [this.current] : []), ...this.all].find((each) => pendingIn(each) > 0);
  }

  /** All calls that wait, in all open sessions. */
  get pending(): number {
    return this.all.reduce((sum, each) => sum + pendingIn(each), 0);
  }

  /** Everything that the page needs to draw from nothing. */
  whole(): ToPage {
    return { type: "session", snapshot: this.current, steps: this.steps, others: this.others };
  }

  /** Take a snapshot from an answer or a notification. */
  take(snapshot: Snapshot): void {
    const known = this.snapshots.get(snapshot.sessionId);
    if (known && known.revision > snapshot.revision) return;
    if (snapshot.state === "closed" && snapshot.sessionId !== this.shown) this.snapshots.delete(snapshot.sessionId);
    else this.snapshots.set(snapshot.sessionId, snapshot);
    if (snapshot.sessionId === this.shown) {
      this.show({ type: "snapshot", snapshot });
      this.complete(known, snapshot);
    } else {
      this.show({ type: "others", others: this.others });
    }
    this.changed();
  }

  /** Take a streamed piece. */
  takePiece(piece: StreamParams): void {
    if (piece.sessionId === this.shown) this.show({ type: "piece", piece });
  }

  /** Forget that sessions are open here: the server that had them is gone. What was shown stays readable. */
  lose(): void {
    const current = this.current;
    this.snapshots.clear();
    if (current) this.snapshots.set(current.sessionId, { ...current, state: "closed", pending: [], revision: -1 });
    this.show(this.whole());
    this.changed();
  }

  /** Open a new session and show it. */
  async open(cwd: string, settings?: Settings): Promise<Snapshot> {
    const snapshot = await this.ask("handrail/session/new", settings ? { cwd, settings } : { cwd });
    await this.select(snapshot);
    return snapshot;
  }

  /** Open a stored session, or go to one that is open, and show it. */
  async load(sessionId: string): Promise<Snapshot> {
    const snapshot = await this.ask("handrail/session/load", { sessionId });
    await this.select(snapshot);
    return snapshot;
  }

  /** Show no session, so that the next prompt opens a new one. */
  leave(): void {
    this.shown = "";
    this.steps = [];
    this.show(this.whole());
    this.changed();
  }

  async list(cwd?: string): Promise<readonly SessionInfo[]> {
    return (await this.ask("handrail/session/list", cwd === undefined ? {} : { cwd })).sessions;
  }

  /** Send a prompt, or queue it while the session works. */
  async prompt(text: string, context: readonly ContextItem[]): Promise<void> {
    const session = this.need();
    const { sessionId } = session;
    if (working(session)) this.take(await this.ask("handrail/session/queue", { sessionId, prompt: text }));
    else {
      const given = context.length > 0 ? { context: [...context] } : {};
      this.take(await this.ask("handrail/session/step", { sessionId, prompt: text, ...given, maxSteps: null }));
    }
  }

  /** Go on with an unfinished turn. */
  async goOn(): Promise<void> {
    const { sessionId } = this.need();
    this.take(await this.ask("handrail/session/step", { sessionId, maxSteps: null }));
  }

  /** Send what the person decided about the call with this digest. */
  async decide(
    sessionId: string,
    callId: string,
    digest: string,
    word: Decision["decision"],
    more: More,
  ): Promise<void> {
    const session = this.snapshots.get(sessionId);
    const call = session?.step?.calls.find((each) => each.callId === callId);
    if (session?.state !== "awaiting_approval" || !session.pending.includes(callId) || call?.digest !== digest) {
      throw new Refused("The command was decided or changed meanwhile; nothing was decided.");
    }
    const decision: Decision = { callId, digest, decision: word, ...more };
    try {
      this.take(await this.ask("handrail/session/decide", { sessionId, decisions: [decision] }));
    } catch (error) {
      this.take(await this.ask("handrail/session/get", { sessionId }));
      throw error;
    }
  }

  async cancel(callId?: string): Promise<void> {
    const { sessionId } = this.need();
    this.take(await this.ask("handrail/session/cancel", callId === undefined ? { sessionId } : { sessionId, callId }));
  }

  async detach(callId: string): Promise<void> {
    this.take(await this.ask("handrail/session/detach", { sessionId: this.need().sessionId, callId }));
  }

  async withdraw(promptId: string): Promise<void> {
    this.take(await this.ask("handrail/session/queue", { sessionId: this.need().sessionId, withdraw: promptId }));
  }

  async configure(settings: Settings): Promise<void> {
    this.take(await this.ask("handrail/session/configure", { sessionId: this.need().sessionId, settings }));
  }

  async compact(): Promise<void> {
    this.take(await this.ask("handrail/session/compact", { sessionId: this.need().sessionId }));
  }

  async run(command: string): Promise<void> {
    this.take(await this.ask("handrail/session/run", { sessionId: this.need().sessionId, command }));
  }

  async delete(sessionId: string): Promise<void> {
    await this.ask("handrail/session/delete", { sessionId });
    this.snapshots.delete(sessionId);
    if (this.shown === sessionId) this.leave();
    this.changed();
  }

  /** Return a session as JSON text. It has to be open for that; one that was not is closed again. */
  async export(sessionId: string, format: "handrail" | "mini-swe-agent-1.1"): Promise<string> {
    const wasOpen = this.snapshots.has(sessionId);
    if (!wasOpen) await this.ask("handrail/session/load", { sessionId });
    const { text } = await this.ask("handrail/session/export", { sessionId, format });
    if (!wasOpen) await this.ask("handrail/session/close", { sessionId });
    return text;
  }

  private need(): Snapshot {
    const session = this.current;
    if (!session || session.revision < 0) throw new Refused("No session is open; give a task or open a session first.");
    return session;
  }

  private get others(): number {
    return this.pending - pendingIn(this.current);
  }

  private async select(snapshot: Snapshot): Promise<void> {
    const { sessionId } = snapshot;
    const from = Math.max(1, snapshot.steps - PAGE_OF_STEPS + 1);
    const steps = snapshot.steps > 0 ? await this.stepsFrom(sessionId, from) : [];
    const newest = this.snapshots.get(sessionId);
    this.shown = sessionId;
    this.steps = steps;
    this.snapshots.set(sessionId, newest && newest.revision > snapshot.revision ? newest : snapshot);
    this.show(this.whole());
    this.changed();
  }

  private async stepsFrom(sessionId: string, fromStep: number): Promise<readonly Step[]> {
    return (await this.ask("handrail/session/transcript", { sessionId, fromStep, limit: PAGE_OF_STEPS })).steps;
  }

  /** A step that is over may have ended in an update that was left out, so it is read once more. */
  private complete(known: Snapshot | undefined, now: Snapshot): void {
    const before = known?.step?.index ?? now.step?.index ?? 0;
    if (!now.step || now.step.index === before) return;
    const { sessionId } = now;
    const last = now.step.index;
    this.stepsFrom(sessionId, before).then(
      (steps) => {
        const over = steps.filter((step) => step.index < last);
        if (sessionId !== this.shown) return;
        this.steps = [...this.steps.filter((step) => step.index < before), ...over];
        this.show({ type: "steps", sessionId, steps: over });
      },
      () => undefined, // the server is gone, which is told elsewhere
    );
  }
}

/** Calls that wait in a session; only a state that is known to be an approval counts. */
export function pendingIn(snapshot: Snapshot | undefined): number {
  return snapshot?.state === "awaiting_approval" ? snapshot.pending.length : 0;
}

/** Say in a few words what all sessions do, for the status bar. */
export function summary(desk: Pick<Desk, "pending" | "all">): string {
  if (desk.pending > 0) return `${count(desk.pending, "command")} ${desk.pending === 1 ? "waits" : "wait"} for you`;
  const words: Record<string, string> = { querying: "thinking", executing: "running", cancelling: "stopping" };
  const states = desk.all.filter((each) => !["idle", "closed", "awaiting_approval"].includes(each.state));
  const state = states[0]?.state;
  return state === undefined ? "" : (words[state] ?? state);
}

const MOST_RESUMED = 20;

/** The sessions to open again when a window begins: what waits there, and what it showed; the one to show comes first. */
export function resumable(sessions: readonly SessionInfo[], shown: string | undefined): SessionInfo[] {
  return sessions
    .filter((each) => each.holder === undefined && (each.pending > 0 || each.sessionId === shown))
    .sort((one, other) => other.updatedAtMs - one.updatedAtMs)
    .slice(0, MOST_RESUMED);
}
