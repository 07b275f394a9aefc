/**
 * The view in the side bar: a page that gets messages and gives messages.
 *
 * Invariants: the page loads nothing but our own script and style, and no text of a session is part of its HTML; what
 * it sends is checked before it is used; while it is hidden it does not exist and costs nothing.
 */
import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import { fromPage, type FromPage, type ToPage } from "./messages";

export const VIEW = "handrail.session";

export class Panel implements vscode.WebviewViewProvider {
  private view: vscode.WebviewView | undefined;
  private ready = false;
  private digest = "";
  private pending = 0;
  private later: ToPage | undefined;

  constructor(
    private readonly extension: vscode.Uri,
    private readonly receive: (message: FromPage) => void,
  ) {}

  /** Whether the person could see it now. */
  get visible(): boolean {
    return this.view?.visible === true;
  }

  /** The digest of the approval on screen; empty if none is. */
  get shownDigest(): string {
    return this.visible ? this.digest : "";
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    this.ready = false;
    const roots = ["dist", "media"].map((name) => vscode.Uri.joinPath(this.extension, name));
    view.webview.options = { enableScripts: true, localResourceRoots: roots, enableForms: false };
    view.webview.onDidReceiveMessage((value: unknown) => this.take(value));
    view.onDidDispose(() => {
      if (this.view === view) this.view = undefined;
    });
    view.onDidChangeVisibility(() => {
      if (!view.visible) this.ready = false;
    });
    view.webview.html = this.html(view.webview);
    this.badge(this.pending);
  }

  /** Send to the page; one that is not there asks for everything when it comes, and then gets the last wish. */
  post(message: ToPage): void {
    if (this.ready) void this.view?.webview.postMessage(message);
    else if (message.type === "wish") this.later = message;
  }

  badge(pending: number): void {
    this.pending = pending;
    const tooltip = pending === 1 ? "1 command waits for you" : `${pending} commands wait for you`;
    // A badge of none clears one; leaving it out would not.
    if (this.view) this.view.badge = { value: pending, tooltip: pending > 0 ? tooltip : "" };
  }

  private take(value: unknown): void {
    const message = fromPage(value);
    if (!message) return;
    if (message.type === "ready") this.ready = true;
    if (message.type === "shown") this.digest = message.digest;
    this.receive(message);
    if (message.type !== "ready" || !this.later) return;
    this.post(this.later);
    this.later = undefined;
  }

  private html(webview: vscode.Webview): string {
    const nonce = randomBytes(16).toString("base64url");
    const uri = (folder: string, name: string) =>
      webview.asWebviewUri(vscode.Uri.joinPath(this.extension, folder, name)).toString();
    const policy = `default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'; form-action 'none'; base-uri 'none'`;
    return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${uri("media", "page.css")}">
<title>Handrail</title>
</head>
<body><script nonce="${nonce}" src="${uri("dist", "page.js")}"></script></body>
</html>`;
  }
}
