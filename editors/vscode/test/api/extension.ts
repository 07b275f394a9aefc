import assert from "node:assert/strict";
import * as vscode from "vscode";

const ID = "handrail.handrail";
type Stubbed = "showInformationMessage" | "showErrorMessage" | "showWarningMessage" | "showQuickPick" | "showInputBox";

/** Put another function in the place of one of the editor's, for the time of some work. */
async function instead(
  name: Stubbed,
  stub: (...given: never[]) => unknown,
  work: () => Promise<unknown>,
): Promise<void> {
  const window = vscode.window as unknown as Record<Stubbed, unknown>;
  const before = window[name];
  window[name] = stub;
  try {
    await work();
  } finally {
    window[name] = before;
  }
}

async function until(holds: () => boolean, what: string): Promise<void> {
  for (let tries = 0; !holds(); tries += 1) {
    assert.ok(tries < 200, `not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The text of what `Check What Is Needed` opens; tried until the server is ready. */
async function checked(): Promise<string> {
  await vscode.commands.executeCommand("workbench.action.closeAllEditors");
  const found = () => vscode.workspace.textDocuments.find((each) => each.getText().includes("lsprotocol: "))?.getText();
  for (let tries = 0; tries < 20; tries += 1) {
    await vscode.commands.executeCommand("handrail.doctor");
    for (let wait = 0; wait < 20; wait += 1) {
      const text = found();
      if (text !== undefined) return text;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  throw new Error("nothing was opened");
}

export function define(): void {
  describe("the extension", () => {
    it("is active in a trusted folder, and every command of its manifest is there", async () => {
      const extension = vscode.extensions.getExtension(ID);
      assert.ok(extension);
      await until(() => extension.isActive, "it is active");
      const manifest = extension.packageJSON as { contributes: { commands: { command: string }[] } };
      const known = await vscode.commands.getCommands(true);
      for (const { command } of manifest.contributes.commands) assert.ok(known.includes(command), command);
    });

    it("runs beside the files, and never in a folder that is not trusted", () => {
      const extension = vscode.extensions.getExtension(ID);
      assert.equal(extension?.extensionKind, vscode.ExtensionKind.Workspace);
      const manifest = extension.packageJSON as { capabilities: { untrustedWorkspaces: { supported: boolean } } };
      assert.equal(manifest.capabilities.untrustedWorkspaces.supported, false);
    });

    it("finds its server by the person's own setting, whatever the folder's files say", async () => {
      const setting = vscode.workspace.getConfiguration("handrail").inspect("server.command");
      assert.equal(setting?.workspaceValue, undefined);
      assert.match(await checked(), /ok {3}bash: /);
    });

    it("takes no arguments for an approval, and does nothing without one on screen", async () => {
      const told: string[] = [];
      await instead(
        "showWarningMessage",
        (text: string) => Promise.resolve(void told.push(text)),
        async () => {
          for (const word of ["approve", "stop", "edit", "reject", "remember"]) {
            await vscode.commands.executeCommand(`handrail.${word}`, {
              callId: "1.1",
              digest: "d",
              decision: "approve",
            });
          }
          await until(() => told.length === 5, "each is refused");
        },
      );
      assert.ok(told.every((text) => text === "Handrail could not do that; its log says why."));
    });

    it("takes a key out of sight, and gives it to the server alone", async () => {
      const pick = (items: readonly { label: string }[]) =>
        Promise.resolve(items.find((each) => each.label === "GEMINI_API_KEY"));
      let options: vscode.InputBoxOptions | undefined;
      const input = (given: vscode.InputBoxOptions) => {
        options = given;
        return Promise.resolve("a-key-of-the-tests");
      };
      await instead("showQuickPick", pick, () =>
        instead("showInputBox", input, async () => {
          await vscode.commands.executeCommand("handrail.setKey");
          await until(() => options !== undefined, "a key is asked for");
          await new Promise((resolve) => setTimeout(resolve, 500));
        }),
      );
      assert.equal(options?.password, true);
      let text = "";
      for (let tries = 0; tries < 10 && !text.includes("GEMINI_API_KEY"); tries += 1) text = await checked();
      assert.match(text, /keys: .*GEMINI_API_KEY/);
      assert.ok(!text.includes("a-key-of-the-tests"));
      assert.equal(process.env["GEMINI_API_KEY"], undefined);
    });
  });
}
