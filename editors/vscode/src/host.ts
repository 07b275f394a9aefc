/**
 * Brings the server, the sessions, the page and the status together.
 *
 * Invariants: every failure becomes a sentence that the person sees; which session is shown survives a reload of the
 * window and a restart of the server.
 */
import * as vscode from "vscode";
import { Desk, Refused, resumable } from "./desk";
import { chips, contextOf, openChanges } from "./editor";
import { locate } from "./environment";
import { Keys } from "./keys";
import type { FromPage, PageAct, ServerState, Wish } from "./messages";
import { Panel, VIEW } from "./panel";
import type { Call } from "./protocol";
import { Server } from "./server";
import { namesOf, settingsOf } from "./settings";
import { Status } from "./status";

const SHOWN = "handrail.shownSession";

export class Host implements vscode.Disposable {
  readonly log = vscode.window.createOutputChannel("Handrail", { log: true });
  readonly keys: Keys;
  readonly panel: Panel;
  readonly desk: Desk;
  readonly server: Server;
  private before: ServerState["state"] = "starting";
  private readonly status = new Status();
  private readonly disposables: vscode.Disposable[] = [];

  constructor(readonly context: vscode.ExtensionContext) {
    this.keys = new Keys(context);
    this.panel = new Panel(context.extensionUri, (message) => this.receive(message));
    this.server = new Server(this.log, () => this.prepare(), {
      onState: (state, fresh) => this.serverChanged(state, fresh),
      onUpdate: (snapshot) => this.desk.take(snapshot),
      onPiece: (piece) => this.desk.takePiece(piece),
    });
    this.desk = new Desk(
      this.server.ask,
      (message) => this.panel.post(message),
      () => this.changed(),
    );
    this.disposables.push(
      this.log,
      this.status,
      this.server,
      vscode.window.registerWebviewViewProvider(VIEW, this.panel),
      vscode.window.onDidChangeActiveTextEditor(() => this.offerChips()),
      vscode.window.onDidChangeTextEditorSelection(() => this.offerChips()),
      vscode.languages.onDidChangeDiagnostics(() => this.offerChips()),
    );
    this.changed();
  }

  dispose(): void {
    for (const each of this.disposables) each.dispose();
  }

  /** Do something that can fail; the reason goes to the page, and to a notice if the page is not there. */
  attempt(work: () => Promise<unknown>): void {
    work().catch((error: unknown) => this.report(error));
  }

  report(error: unknown): void {
    const text = error instanceof Error ? error.message : String(error);
    if (!(error instanceof Refused)) this.log.warn(text);
    if (this.panel.visible) this.panel.post({ type: "notice", text });
    // The reason may quote a command, which never belongs into a notice.
    else void vscode.window.showWarningMessage("Handrail could not do that; its log says why.");
  }

  /** Show the view with the approval that waits, and bring the focus to its text. */
  async showApproval(): Promise<void> {
    const waiting = this.desk.waiting;
    if (waiting && waiting.sessionId !== this.desk.current?.sessionId) await this.desk.load(waiting.sessionId);
    await vscode.commands.executeCommand(`${VIEW}.focus`);
    this.wish("focus");
  }

  wish(wish: Wish): void {
    // Only the focus may come later: a decision is about what is on screen now.
    if (!this.panel.visible && wish !== "focus" && wish !== "prompt") return;
    this.panel.post({ type: "wish", wish });
  }

  /** The folder of a new session; asks if there are several. */
  async folder(): Promise<vscode.Uri> {
    const folders = (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === "file");
    const picked =
      folders.length > 1
        ? await vscode.window.showWorkspaceFolderPick({ placeHolder: "The folder that the agent works in" })
        : folders[0];
    if (!picked) throw new Refused("Open a folder; the agent works in it.");
    return picked.uri;
  }

  private async prepare() {
    const configuration = vscode.workspace.getConfiguration("handrail");
    const manifest = this.context.extension.packageJSON as { contributes: { configuration: { properties: object } } };
    const names = namesOf(manifest.contributes.configuration.properties as Record<string, unknown>);
    return {
      found: await locate(this.log),
      keys: await this.keys.environment(),
      settings: settingsOf(names, (name) => configuration.inspect(name)),
    };
  }

  private serverChanged(state: ServerState, fresh: boolean): void {
    const before = this.before;
    this.before = state.state;
    this.panel.post({ type: "server", server: state });
    if (state.state === "restarting" || state.state === "failed") this.desk.lose();
    if (state.state === "failed" && before !== "failed") this.offerLog(state);
    if (state.state === "missing") this.offerWaysOut(state);
    if (fresh) this.attempt(() => this.resume());
    this.changed();
  }

  /**
   * Open again what waits for the person in these folders, and show what was last at work before the reload or crash.
   * The server's record is asked, since the window's own memory may be older than the reload.
   */
  private async resume(): Promise<void> {
    const folders = (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.toString());
    const lists = await Promise.all(folders.map((folder) => this.desk.list(folder)));
    const sessions = resumable(lists.flat(), this.context.workspaceState.get<string>(SHOWN));
    for (const { sessionId } of sessions.reverse()) {
      try {
        await this.desk.load(sessionId);
      } catch (error) {
        this.report(error);
      }
    }
  }

  private changed(): void {
    this.status.update(this.server.state, this.desk);
    this.panel.badge(this.desk.pending);
    const current = this.desk.current;
    const looking = this.panel.visible && vscode.window.state.focused && this.desk.waiting === current;
    this.attempt(() => this.status.notice(this.desk, looking));
    if (current?.sessionId !== this.context.workspaceState.get(SHOWN) && this.server.state.state === "ready") {
      void this.context.workspaceState.update(SHOWN, current?.sessionId);
    }
  }

  private offerChips(): void {
    if (this.panel.visible) this.panel.post({ type: "chips", chips: chips() });
  }

  private receive(message: FromPage): void {
    switch (message.type) {
      case "ready":
        this.panel.post({ type: "server", server: this.server.state });
        this.panel.post(this.desk.whole());
        this.offerChips();
        break;
      case "prompt":
        this.attempt(() => this.prompt(message.text, message.chips));
        break;
      case "decide": {
        const { sessionId, callId, digest, decision, more } = message;
        this.attempt(() => this.desk.decide(sessionId, callId, digest, decision, more));
        break;
      }
      case "preview":
        this.attempt(() => this.preview(message.sessionId, message.digest, message.command));
        break;
      case "refused":
        this.panel.post({ type: "notice", text: message.text });
        void vscode.commands.executeCommand(`${VIEW}.focus`).then(() => this.wish("focus"));
        break;
      case "act":
        this.attempt(() => this.act(message.act, message.id));
        break;
      case "focused":
        void vscode.commands.executeCommand("setContext", "handrail.viewFocused", message.focused);
        break;
      case "shown":
        void vscode.commands.executeCommand("setContext", "handrail.approvalOnScreen", message.digest !== "");
    }
  }

  private async prompt(text: string, chosen: readonly string[]): Promise<void> {
    const current = this.desk.current;
    if (!current || current.state === "closed") await this.desk.open((await this.folder()).toString());
    await this.desk.prompt(text, contextOf(chosen));
  }

  private async preview(sessionId: string, digest: string, command: string): Promise<void> {
    const cwd = this.desk.current?.cwd ?? "";
    const found = await this.server.ask("handrail/command/analyze", { sessionId, command, cwd });
    const { display, warnings, verdict } = found;
    this.panel.post({ type: "preview", digest, preview: { command, display, warnings, verdict: verdict.decision } });
  }

  private async act(act: PageAct, id: string): Promise<void> {
    const acts: Record<PageAct, () => unknown> = {
      cancel: () => this.desk.cancel(),
      cancelCall: () => this.desk.cancel(id),
      detach: () => this.desk.detach(id),
      continue: () => this.desk.goOn(),
      withdraw: () => this.desk.withdraw(id),
      mode: () => vscode.commands.executeCommand("handrail.mode"),
      saveAll: () => vscode.workspace.saveAll(false),
      openOutput: () => this.openOutput(id),
      openChanges: () => this.openChanges(id),
      showLog: () => this.log.show(),
      restart: () => this.server.restart(),
      setServer: () => vscode.commands.executeCommand("workbench.action.openSettings", "handrail.server.command"),
      sessions: () => vscode.commands.executeCommand("handrail.sessions"),
      showOther: () => this.showApproval(),
      walkthrough: () => vscode.commands.executeCommand("handrail.walkthrough"),
    };
    await acts[act]();
  }

  private calls(): Call[] {
    const { step, detached, personCommand } = this.desk.current ?? {};
    return [...(step?.calls ?? []), ...(detached ?? []), ...(personCommand ? [personCommand] : [])];
  }

  private async openOutput(callId: string): Promise<void> {
    const uri = (await this.callOf(callId))?.result?.outputUri;
    if (uri !== undefined) await vscode.commands.executeCommand("vscode.open", vscode.Uri.parse(uri, true));
  }

  private async openChanges(uri: string): Promise<void> {
    const named = (await this.known()).some((call) => call.result?.changedFiles.includes(uri));
    if (named) await openChanges(vscode.Uri.parse(uri, true));
  }

  private async callOf(callId: string): Promise<Call | undefined> {
    return (await this.known()).find((call) => call.callId === callId);
  }

  /** All calls of the shown session: what the page may name. */
  private async known(): Promise<Call[]> {
    const sessionId = this.desk.current?.sessionId;
    if (sessionId === undefined) return [];
    const { steps } = await this.server.ask("handrail/session/transcript", { sessionId, limit: 500 });
    return [...steps.flatMap((step) => step.calls), ...this.calls()];
  }

  private offerLog(state: ServerState): void {
    void vscode.window.showErrorMessage(state.text, "Show Log", "Restart").then((choice) => {
      if (choice === "Show Log") this.log.show();
      if (choice === "Restart") this.attempt(() => this.server.restart());
    });
  }

  private offerWaysOut(state: ServerState): void {
    void vscode.window.showErrorMessage(state.text, "Install…", "Open Setting").then((choice) => {
      if (choice === "Install…") void vscode.commands.executeCommand("handrail.install");
      if (choice === "Open Setting") this.attempt(() => this.act("setServer", ""));
    });
  }
}
