/**
 * Helps to install the server: writes the exact command into a terminal, for the person to read and to run.
 *
 * Invariants: nothing is run here, and no name is asked of a registry: the source is a folder that the person chooses.
 */
import * as vscode from "vscode";
import { ownEnvironment } from "./environment";

/** Ask for Handrail's folder and write the command that installs the server from it. */
export async function install(): Promise<void> {
  const picked = await vscode.window.showOpenDialog({
    canSelectFiles: false,
    canSelectFolders: true,
    openLabel: "Install the server from this folder",
    title: "The folder with Handrail’s source, which holds pyproject.toml",
  });
  const folder = picked?.[0];
  if (!folder) return;
  try {
    await vscode.workspace.fs.stat(vscode.Uri.joinPath(folder, "pyproject.toml"));
  } catch {
    void vscode.window.showErrorMessage("That folder holds no pyproject.toml; choose the one with Handrail’s source.");
    return;
  }
  const terminal = vscode.window.createTerminal({ name: "Install Handrail" });
  terminal.show();
  terminal.sendText(installCommand(folder.fsPath, ownEnvironment()), false);
  const text = "Read the command in the terminal and press Enter there to run it. Then restart the server.";
  if ((await vscode.window.showInformationMessage(text, "Restart the Server")) !== undefined) {
    await vscode.commands.executeCommand("handrail.restart");
  }
}

function installCommand(source: string, environment: string): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  return `python3 -m venv ${quoted(environment)} && ${quoted(`${environment}/bin/pip`)} install ${quoted(source)}`;
}
