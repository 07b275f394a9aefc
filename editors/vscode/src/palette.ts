/**
 * The commands of the palette.
 *
 * Invariants: no command takes arguments; those about an approval are wishes to the page, which grants them only for
 * the approval on screen, and to approve only for a key pressed in it, so that no macro and no link can approve.
 */
import * as vscode from "vscode";
import { Refused } from "./desk";
import type { Host } from "./host";
import { install } from "./install";
import { VIEW } from "./panel";
import type { SessionInfo } from "./protocol";
import { count, escape, meaning, money, nameOf } from "./text";

/** Register every command. */
export function register(host: Host): vscode.Disposable[] {
  const { desk, server } = host;
  const wish = (name: "approve" | "edit" | "reject" | "stop" | "remember") => async () => {
    if (host.panel.shownDigest === "") throw new Refused("No command that waits is on screen.");
    if (name !== "approve") await vscode.commands.executeCommand(`${VIEW}.focus`);
    host.wish(name);
  };
  const commands: Record<string, () => unknown> = {
    focus: async () => {
      await vscode.commands.executeCommand(`${VIEW}.focus`);
      host.wish("prompt");
    },
    showApproval: () => host.showApproval(),
    approve: wish("approve"),
    edit: wish("edit"),
    reject: wish("reject"),
    stop: wish("stop"),
    remember: wish("remember"),
    new: async () => {
      desk.leave();
      await vscode.commands.executeCommand("handrail.focus");
    },
    sessions: () => pickSession(host),
    cancel: () => desk.cancel(),
    continue: () => desk.goOn(),
    compact: () => desk.compact(),
    run: () => runOwn(host),
    mode: () => pickMode(host),
    saveAll: () => vscode.workspace.saveAll(false),
    restart: () => server.restart(),
    showLog: () => host.log.show(),
    install,
    doctor: () => doctor(host),
    setKey: async () => {
      if (await host.keys.ask()) await server.restart();
    },
    walkthrough: () =>
      vscode.commands.executeCommand("workbench.action.openWalkthrough", `${host.context.extension.id}#start`, false),
  };
  return Object.entries(commands).map(([name, work]) =>
    // What a caller passes is dropped here, whoever it is.
    vscode.commands.registerCommand(`handrail.${name}`, () => host.attempt(() => Promise.resolve(work()))),
  );
}

const MODES = [
  { label: "ask", detail: "Remembered approvals run; everything else is asked." },
  { label: "rules", detail: "What an allow rule of yours covers runs too." },
  { label: "plan", detail: "Only reading." },
  { label: "trusted", detail: "Everything runs without being asked, but what a rule denies or asks." },
] as const;

async function pickMode(host: Host): Promise<void> {
  const now = host.desk.current?.mode;
  const items = MODES.map((mode) => ({ ...mode, description: mode.label === now ? "now" : "" }));
  const picked = await vscode.window.showQuickPick(items, { title: "How commands are judged in this session" });
  if (!picked) return;
  if (picked.label === "trusted") {
    const detail = "Commands will run in this session without being asked, but those that a rule denies or asks.";
    const sure = await vscode.window.showWarningMessage("Switch to mode trusted?", { modal: true, detail }, "Switch");
    if (sure === undefined) return;
  }
  await host.desk.configure({ mode: picked.label });
}

async function runOwn(host: Host): Promise<void> {
  if (!host.desk.current) throw new Refused("No session is open; give a task or open a session first.");
  const command = await vscode.window.showInputBox({
    title: "Run My Own Command",
    prompt: "Runs at once in the session’s folder; the model is told that you ran it.",
    ignoreFocusOut: true,
  });
  if (command?.trim()) await host.desk.run(command);
}

type Line = vscode.QuickPickItem & { info: SessionInfo };

async function pickSession(host: Host): Promise<void> {
  const cwd = (await host.folder()).toString();
  const picker = vscode.window.createQuickPick<Line>();
  picker.title = "Sessions";
  picker.placeholder = "Open a session";
  picker.matchOnDescription = true;
  picker.busy = true;
  const fill = async () => {
    picker.items = (await host.desk.list(cwd)).map((info) => line(info, host.desk.current?.sessionId));
    picker.busy = false;
    if (picker.items.length === 0)
      picker.placeholder = "There is no session of this folder yet; give a task in the view.";
  };
  picker.onDidHide(() => picker.dispose());
  picker.onDidAccept(() => {
    const info = picker.selectedItems[0]?.info;
    picker.hide();
    if (info) host.attempt(() => openSession(host, info));
  });
  picker.onDidTriggerItemButton(({ item, button }) => {
    host.attempt(async () => {
      if (button.tooltip === DELETE) await deleteSession(host, item.info);
      else await exportSession(host, item.info);
    });
  });
  picker.show();
  await fill();
}

const DELETE = "Delete";
const BUTTONS = [
  { iconPath: new vscode.ThemeIcon("export"), tooltip: "Export" },
  { iconPath: new vscode.ThemeIcon("trash"), tooltip: DELETE },
];

function line(info: SessionInfo, shown: string | undefined): Line {
  const ending = info.stopReason ? meaning("StopReason", info.stopReason) : meaning("State", info.state);
  const waits =
    info.pending > 0 ? `${count(info.pending, "command")} ${info.pending === 1 ? "waits" : "wait"}` : ending;
  const when = new Date(info.updatedAtMs).toLocaleString();
  const held = info.holder === undefined ? [] : [`open elsewhere (${info.holder})`];
  return {
    label: `${info.sessionId === shown ? "$(check) " : ""}${plain(info.title) || "(no task yet)"}`,
    description: when,
    detail: [nameOf(info.cwd), waits, count(info.steps, "step"), money(info.cost, info.costKnown), ...held].join(" · "),
    buttons: BUTTONS,
    info,
  };
}

/** A title is the person's words, yet may hold what a label would turn into an icon. */
function plain(title: string): string {
  return escape(title).replace(/\$\(/g, "$\u200b(").replace(/\s+/g, " ");
}

async function openSession(host: Host, info: SessionInfo): Promise<void> {
  await host.desk.load(info.sessionId);
  await vscode.commands.executeCommand(`${VIEW}.focus`);
}

async function deleteSession(host: Host, info: SessionInfo): Promise<void> {
  const detail = `“${escape(info.title) || "(no task yet)"}” and its record are removed; files in the folder stay as they are.`;
  const sure = await vscode.window.showWarningMessage("Delete this session?", { modal: true, detail }, DELETE);
  if (sure === DELETE) await host.desk.delete(info.sessionId);
}

async function exportSession(host: Host, info: SessionInfo): Promise<void> {
  const formats = [
    { label: "Handrail", description: "everything, as JSON", format: "handrail" },
    { label: "Trajectory", description: "mini-swe-agent-1.1", format: "mini-swe-agent-1.1" },
  ] as const;
  const picked = await vscode.window.showQuickPick(formats, { title: "Export as" });
  if (!picked) return;
  const content = await host.desk.export(info.sessionId, picked.format);
  const document = await vscode.workspace.openTextDocument({ language: "json", content });
  await vscode.window.showTextDocument(document);
}

async function doctor(host: Host): Promise<void> {
  const { checks, versions, paths, keyNames } = await host.server.ask("handrail/server/health", {});
  const lines = [
    ...checks.map(
      (check) =>
        `${check.ok ? "ok " : "NOT"}  ${check.name}: ${check.detail}${check.wayOut ? ` → ${check.wayOut}` : ""}`,
    ),
    "",
    ...[...versions, ...paths].map((fact) => `${fact.name}: ${fact.value}`),
    `keys: ${keyNames.join(", ") || "none"}`,
    "",
  ];
  const document = await vscode.workspace.openTextDocument({ language: "plaintext", content: lines.join("\n") });
  await vscode.window.showTextDocument(document);
}
