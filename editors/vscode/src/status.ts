/**
 * What is seen of Handrail outside of its view: status bar, language status, badge, notices.
 *
 * Invariants: none of it ever shows a command; a notice only says that one waits, and opens the view.
 */
import * as vscode from "vscode";
import { summary, type Desk } from "./desk";
import type { ServerState } from "./messages";
import { count } from "./text";

export class Status implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("handrail.status", vscode.StatusBarAlignment.Left, 50);
  private readonly language = vscode.languages.createLanguageStatusItem("handrail.server", { pattern: "**" });
  private noticed = "";

  constructor() {
    this.item.name = "Handrail";
    this.language.name = "Handrail";
    this.item.show();
  }

  /** Show what is so now. */
  update(server: ServerState, desk: Desk): void {
    this.updateBar(server, desk);
    const broken = server.state === "failed" || server.state === "missing";
    this.language.text = server.state === "ready" ? "Handrail: ready" : `Handrail: ${server.state}`;
    this.language.detail = server.text;
    this.language.busy = server.state === "starting" || server.state === "restarting";
    this.language.severity = broken ? vscode.LanguageStatusSeverity.Error : vscode.LanguageStatusSeverity.Information;
    this.language.command = { command: "handrail.showLog", title: "Show log" };
    void vscode.commands.executeCommand("setContext", "handrail.pending", desk.pending > 0);
    const working = desk.current !== undefined && !["idle", "closed"].includes(desk.current.state);
    void vscode.commands.executeCommand("setContext", "handrail.working", working);
  }

  /** Say once for every approval that a command waits, unless the person already looks at it. */
  async notice(desk: Desk, looking: boolean): Promise<void> {
    const waiting = desk.waiting;
    const digest = waiting?.step?.calls.find((call) => call.callId === waiting.pending[0])?.digest ?? "";
    if (digest === this.noticed) return;
    this.noticed = digest;
    if (digest === "" || looking) return;
    const show = "Show";
    const text = `Handrail: ${count(desk.pending, "command")} ${desk.pending === 1 ? "waits" : "wait"} for your approval.`;
    if ((await vscode.window.showInformationMessage(text, show)) === show) {
      await vscode.commands.executeCommand("handrail.showApproval");
    }
  }

  dispose(): void {
    this.item.dispose();
    this.language.dispose();
  }

  private updateBar(server: ServerState, desk: Desk): void {
    const doing = summary(desk);
    const waits = desk.pending > 0;
    const broken = server.state === "failed" || server.state === "missing";
    const icon = broken
      ? "error"
      : waits
        ? "bell-dot"
        : doing !== "" || server.state === "starting"
          ? "sync~spin"
          : "pass";
    this.item.text = `$(${icon}) Handrail${doing === "" ? "" : `: ${doing}`}`;
    this.item.tooltip = broken || doing === "" ? server.text : `Handrail: ${doing}`;
    this.item.accessibilityInformation = {
      label: `Handrail, ${broken || doing === "" ? server.text : doing}`,
      role: "button",
    };
    this.item.command = broken ? "handrail.showLog" : waits ? "handrail.showApproval" : "handrail.focus";
    this.item.backgroundColor = broken
      ? new vscode.ThemeColor("statusBarItem.errorBackground")
      : waits
        ? new vscode.ThemeColor("statusBarItem.warningBackground")
        : undefined;
  }
}
