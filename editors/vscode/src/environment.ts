/**
 * Where the server can be found: what the Python extensions, the environment and the settings tell.
 *
 * Invariants: the Python extensions are asked if they are there and never needed; one that fails is passed over.
 */
import { statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import * as vscode from "vscode";
import { findServer, type Found } from "./find";
import { commandOf } from "./settings";

/** As much as is used of the extension `ms-python.vscode-python-envs`. */
interface Environments {
  getEnvironment(scope: vscode.Uri | undefined): Promise<{ execInfo?: { run?: { executable?: string } } } | undefined>;
}

/** As much as is used of the extension `ms-python.python`. */
interface Python {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(path: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
  };
}

/** Where `Handrail: Install Server` makes the server's own Python environment. */
export function ownEnvironment(): string {
  return join(homedir(), ".local", "share", "handrail", "venv");
}

/** Find the command that starts the server. */
export async function locate(log: vscode.LogOutputChannel): Promise<Found> {
  const folders = (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri);
  return findServer({
    setting: commandOf(vscode.workspace.getConfiguration("handrail").inspect("server.command")?.globalValue),
    interpreters: await interpreters(folders[0], log),
    path: process.env["PATH"] ?? "",
    installed: join(ownEnvironment(), "bin", "handrail"),
    folders: folders.map((folder) => folder.fsPath),
    isFile,
  });
}

async function interpreters(folder: vscode.Uri | undefined, log: vscode.LogOutputChannel): Promise<string[]> {
  const found: string[] = [];
  for (const ask of [byEnvironments, byPython]) {
    try {
      const interpreter = await ask(folder);
      if (interpreter) found.push(interpreter);
    } catch (error) {
      log.debug(`A Python extension did not tell its interpreter: ${String(error)}`);
    }
  }
  return found;
}

async function byEnvironments(folder: vscode.Uri | undefined): Promise<string | undefined> {
  const api = await exported<Environments>("ms-python.vscode-python-envs");
  return (await api?.getEnvironment(folder))?.execInfo?.run?.executable;
}

async function byPython(folder: vscode.Uri | undefined): Promise<string | undefined> {
  const api = await exported<Python>("ms-python.python");
  if (!api) return undefined;
  const active = api.environments.getActiveEnvironmentPath(folder);
  return (await api.environments.resolveEnvironment(active))?.executable.uri?.fsPath;
}

async function exported<Api>(id: string): Promise<Api | undefined> {
  const extension = vscode.extensions.getExtension<Api>(id);
  return extension && (extension.isActive ? extension.exports : await extension.activate());
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}
