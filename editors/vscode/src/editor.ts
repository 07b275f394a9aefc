/**
 * What the editor knows (selection, open file, diagnostics) and what it opens.
 *
 * Invariants: only files are told and opened that a snapshot names or the person has open; texts are bounded.
 */
import * as vscode from "vscode";
import type { Chip } from "./messages";
import type { ContextItem } from "./protocol";

const LONGEST = 32 * 1024;
const MOST_DIAGNOSTICS = 50;
const SEVERITIES = ["error", "warning", "information", "hint"];

/** What can be given along with a prompt now. */
export function chips(): Chip[] {
  const editor = vscode.window.activeTextEditor;
  if (editor?.document.uri.scheme !== "file") return [];
  const { document, selection } = editor;
  const name = vscode.workspace.asRelativePath(document.uri);
  const offered: Chip[] = [{ id: "file", label: name }];
  if (!selection.isEmpty) {
    const lines = `${selection.start.line + 1}–${selection.end.line + 1}`;
    offered.push({ id: "selection", label: `Selection, lines ${lines}` });
  }
  const found = vscode.languages.getDiagnostics(document.uri).length;
  if (found > 0) offered.push({ id: "diagnostics", label: found === 1 ? "1 problem" : `${found} problems` });
  return offered;
}

/** The context that the chosen chips stand for. */
export function contextOf(chosen: readonly string[]): ContextItem[] {
  const editor = vscode.window.activeTextEditor;
  if (editor?.document.uri.scheme !== "file") return [];
  const uri = editor.document.uri.toString();
  const items: ContextItem[] = [];
  if (chosen.includes("file")) items.push({ kind: "file", uri });
  if (chosen.includes("selection") && !editor.selection.isEmpty) {
    items.push({
      kind: "selection",
      uri,
      firstLine: editor.selection.start.line + 1,
      lastLine: editor.selection.end.line + 1,
      text: editor.document.getText(editor.selection).slice(0, LONGEST),
    });
  }
  if (chosen.includes("diagnostics")) items.push({ kind: "diagnostics", uri, text: problems(editor.document.uri) });
  return items;
}

function problems(uri: vscode.Uri): string {
  const lines = vscode.languages
    .getDiagnostics(uri)
    .slice(0, MOST_DIAGNOSTICS)
    .map((each) => {
      const severity = SEVERITIES[each.severity] ?? "problem";
      return `${each.range.start.line + 1}:${each.range.start.character + 1} ${severity}: ${each.message}`;
    });
  return lines.join("\n").slice(0, LONGEST);
}

/** As much as is used of the built-in extension `vscode.git`. */
interface Git {
  getAPI(version: 1): {
    getRepository(uri: vscode.Uri): object | null;
    toGitUri(uri: vscode.Uri, ref: string): vscode.Uri;
  };
}

/** Open a file beside its committed version; by itself where there is none. */
export async function openChanges(uri: vscode.Uri): Promise<void> {
  const extension = vscode.extensions.getExtension<Git>("vscode.git");
  try {
    const git = extension && (extension.isActive ? extension.exports : await extension.activate()).getAPI(1);
    if (git?.getRepository(uri)) {
      const name = vscode.workspace.asRelativePath(uri);
      await vscode.commands.executeCommand("vscode.diff", git.toGitUri(uri, "HEAD"), uri, `${name} (committed ↔ now)`);
      return;
    }
  } catch {
    // Without Git, or for a file that is new to it, the file itself is what there is to see.
  }
  await vscode.commands.executeCommand("vscode.open", uri);
}
