/**
 * The server's process and the connection to it: found, started, restarted after a crash, and stopped.
 *
 * Invariants: nothing starts in a workspace that is not trusted, on native Windows or without a folder; starts and stops
 * happen one after the other; approvals are announced; the process never runs in a workspace's folder.
 */
import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  ResponseError,
  State,
  type CloseHandlerResult,
  type Executable,
  type StaticFeature,
} from "vscode-languageclient/node";
import { Refused, type Ask } from "./desk";
import type { Found } from "./find";
import type { ServerState } from "./messages";
import { PROTOCOL_VERSION, type Announcement, type Settings, type Snapshot, type StreamParams } from "./protocol";
import { Restarts } from "./restarts";

export interface ServerEvents {
  /** The state changed; `fresh` if a server is there that knows nothing of this window yet. */
  readonly onState: (state: ServerState, fresh: boolean) => void;
  readonly onUpdate: (snapshot: Snapshot) => void;
  readonly onPiece: (piece: StreamParams) => void;
}

export interface Start {
  readonly found: Found;
  /** Provider keys that the person stored; they go into the server's environment and nowhere else. */
  readonly keys: Readonly<Record<string, string>>;
  readonly settings: Settings;
}

const ANNOUNCED: Required<Announcement> = { protocolVersion: PROTOCOL_VERSION, approvals: true };

export class Server implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private queue: Promise<void> = Promise.resolve();
  private waiting = false;
  private readonly restarts = new Restarts();
  private told: ServerState = { state: "starting", text: "Handrail’s server is starting." };

  constructor(
    private readonly log: vscode.LogOutputChannel,
    private readonly prepare: () => Promise<Start>,
    private readonly events: ServerEvents,
  ) {}

  get state(): ServerState {
    return this.told;
  }

  /** Send a request; fails with a sentence if there is no server. */
  readonly ask: Ask = async (method, params) => {
    if (this.client?.state !== State.Running) throw new Refused(this.told.text);
    return await this.client.sendRequest(method, params);
  };

  /** Start, or stop and start again. Calls that come while one waits for its turn are that one. */
  restart(): Promise<void> {
    this.restarts.forget();
    if (!this.waiting) {
      this.waiting = true;
      this.queue = this.queue.then(async () => {
        this.waiting = false;
        await this.stopNow();
        await this.startNow();
      });
    }
    return this.queue;
  }

  stop(): Promise<void> {
    this.queue = this.queue.then(() => this.stopNow());
    return this.queue;
  }

  dispose(): void {
    void this.stop();
  }

  private async startNow(): Promise<void> {
    const reason = whyNot();
    if (reason) {
      this.tell(reason);
      return;
    }
    this.tell({ state: "starting", text: "Handrail’s server is starting." });
    const start = await this.prepare();
    if ("problem" in start.found) {
      this.tell({ state: "missing", text: start.found.problem });
      return;
    }
    this.log.info(`Starting the server from ${start.found.source}: ${start.found.command.join(" ")}`);
    const client = this.connect(start);
    this.client = client;
    try {
      await client.start();
    } catch (error) {
      this.log.error(`The server did not start: ${String(error)}`);
      if (this.client === client && this.told.state === "starting")
        this.tell(failed("Handrail’s server did not start"));
    }
  }

  private async stopNow(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    if (!client) return;
    try {
      await client.dispose(2500);
    } catch (error) {
      this.log.debug(`The server ended before it was asked to: ${String(error)}`);
    }
  }

  private connect(start: Start): LanguageClient {
    const [command = "", ...args] = "problem" in start.found ? [] : start.found.command;
    const program: Executable = {
      command,
      args,
      options: { cwd: "/", env: { ...process.env, ...start.keys } },
    };
    const client: LanguageClient = new QuietClient("handrail", "Handrail", program, {
      // The server compares what is open with what is on disk, to tell of unsaved files that a command touches.
      documentSelector: [{ scheme: "file" }],
      outputChannel: this.log,
      traceOutputChannel: this.log,
      initializationOptions: start.settings,
      initializationFailedHandler: (error: unknown) => {
        // A server that ended instead of answering is told of, and started again, by `ended`.
        if (error instanceof ResponseError && error.code !== GONE) {
          this.tell(failed(`Handrail’s server refused to start: ${error.message}`));
        }
        return false;
      },
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => this.ended(client),
      },
    });
    client.registerFeature(announcing);
    client.onNotification("handrail/session/didUpdate", (snapshot: Snapshot) => this.events.onUpdate(snapshot));
    client.onNotification("handrail/session/didStream", (piece: StreamParams) => this.events.onPiece(piece));
    client.onDidChangeState(({ newState }) => {
      if (newState !== State.Running || this.client !== client) return;
      this.trustFolders(client);
      this.tell({ state: "ready", text: "Handrail’s server is ready." }, true);
    });
    return client;
  }

  /** Tell that the open folders are trusted: this extension is active in no other. */
  private trustFolders(client: LanguageClient): void {
    for (const folder of vscode.workspace.workspaceFolders ?? []) {
      void client.sendNotification("handrail/workspace/didChangeTrust", {
        folder: folder.uri.toString(),
        trusted: vscode.workspace.isTrusted,
      });
    }
  }

  private async ended(client: LanguageClient): Promise<CloseHandlerResult> {
    if (this.client !== client) return { action: CloseAction.DoNotRestart, handled: true };
    const pause = this.restarts.after(Date.now());
    if (pause === undefined) {
      this.log.error("The server ended five times in three minutes; it is not started again by itself.");
      this.tell(failed("Handrail’s server ended five times in three minutes and is not started again by itself"));
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    this.log.warn(`The server ended by itself; it is started again in ${pause} ms.`);
    this.tell({ state: "restarting", text: "Handrail’s server ended and is started again." });
    await new Promise((resolve) => setTimeout(resolve, pause));
    const action = this.client === client ? CloseAction.Restart : CloseAction.DoNotRestart;
    return { action, handled: true };
  }

  private tell(state: ServerState, fresh = false): void {
    this.told = state;
    this.events.onState(state, fresh);
  }
}

/** The code of a request that the end of the connection left without an answer. */
const GONE = -32097;

/** What the library would show by itself goes to the log: the person is told once, in our words. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }

  override warn(message: string, data?: unknown): void {
    super.warn(message, data, false);
  }
}

const announcing: StaticFeature = {
  fillClientCapabilities(capabilities) {
    const experimental = (capabilities.experimental ?? {}) as Record<string, unknown>;
    capabilities.experimental = { ...experimental, handrail: ANNOUNCED };
  },
  initialize: () => undefined,
  getState: () => ({ kind: "static" }),
  clear: () => undefined,
};

function failed(text: string): ServerState {
  return { state: "failed", text: `${text}. The log says why.` };
}

function whyNot(): ServerState | undefined {
  if (process.platform === "win32") {
    return {
      state: "no-folder",
      text: "Handrail needs bash and Linux’ processes. On Windows, open the folder in WSL: “WSL: Reopen Folder in WSL”.",
    };
  }
  const folders = vscode.workspace.workspaceFolders ?? [];
  if (!folders.some((folder) => folder.uri.scheme === "file")) {
    return { state: "no-folder", text: "Open a folder; the agent works in it." };
  }
  return undefined;
}
