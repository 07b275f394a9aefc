/**
 * Provider keys in the editor's secret storage.
 *
 * Invariants: a key goes from the person's input to the secret storage, and from there into the environment of the
 * server's process; it is in no setting, no log and no message.
 */
import * as vscode from "vscode";

const PREFIX = "handrail.key.";
const NAMES = "handrail.keyNames";
const USUAL = [
  "ANTHROPIC_API_KEY",
  "OPENAI_API_KEY",
  "GEMINI_API_KEY",
  "MISTRAL_API_KEY",
  "OPENROUTER_API_KEY",
  "DEEPSEEK_API_KEY",
];
const OTHER = "Another variable…";
const VARIABLE = /^[A-Z][A-Z0-9_]*(?:KEY|TOKEN)$/;

export class Keys {
  constructor(private readonly context: vscode.ExtensionContext) {}

  /** The stored keys, by the variable that the server reads. */
  async environment(): Promise<Record<string, string>> {
    const found: Record<string, string> = {};
    for (const name of this.names()) {
      const key = await this.context.secrets.get(PREFIX + name);
      if (key) found[name] = key;
    }
    return found;
  }

  /** Ask the person for a key and store it, or remove it if it is empty; true if something changed. */
  async ask(): Promise<boolean> {
    const name = await this.askName();
    if (name === undefined) return false;
    const key = await vscode.window.showInputBox({
      title: `Set ${name}`,
      prompt: "It is kept in the editor’s secret storage and given to the server’s environment only. Empty removes it.",
      password: true,
      ignoreFocusOut: true,
    });
    if (key === undefined) return false;
    const others = this.names().filter((each) => each !== name);
    if (key.trim() === "") await this.context.secrets.delete(PREFIX + name);
    else await this.context.secrets.store(PREFIX + name, key.trim());
    await this.context.globalState.update(NAMES, key.trim() === "" ? others : [...others, name]);
    return true;
  }

  private names(): string[] {
    return this.context.globalState.get<string[]>(NAMES, []);
  }

  private async askName(): Promise<string | undefined> {
    const stored = this.names();
    const names = [...new Set([...stored, ...USUAL])];
    const items = names.map((label) => ({ label, description: stored.includes(label) ? "stored" : "" }));
    const picked = await vscode.window.showQuickPick([...items, { label: OTHER, description: "" }], {
      title: "Set API Key",
      placeHolder: "The variable that the provider’s key belongs to",
    });
    if (picked?.label !== OTHER) return picked?.label;
    return vscode.window.showInputBox({
      title: "Set API Key",
      prompt: "The name of the environment variable",
      validateInput: (text) =>
        VARIABLE.test(text) ? undefined : "Capital letters, digits and _; it ends in KEY or TOKEN.",
    });
  }
}
