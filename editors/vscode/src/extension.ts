/**
 * The extension's beginning and end.
 *
 * Invariants: active only in workspaces that are trusted; the server ends with it.
 */
import * as vscode from "vscode";
import { Host } from "./host";
import { register } from "./palette";

let host: Host | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const started = new Host(context);
  host = started;
  context.subscriptions.push(
    started,
    ...register(started),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("handrail")) started.attempt(() => offerRestart(started));
    }),
    vscode.workspace.onDidChangeWorkspaceFolders(() => {
      if (started.server.state.state === "no-folder") started.attempt(() => started.server.restart());
    }),
  );
  // The window need not wait for the server.
  started.attempt(() => started.server.restart());
}

export async function deactivate(): Promise<void> {
  await host?.server.stop();
}

async function offerRestart(started: Host): Promise<void> {
  const works = started.desk.all.some((each) => each.state !== "idle" && each.state !== "closed");
  if (!works) return started.server.restart();
  const text = "Handrail: settings count after the server was restarted, which interrupts what runs.";
  if ((await vscode.window.showInformationMessage(text, "Restart Now")) !== undefined) await started.server.restart();
}
