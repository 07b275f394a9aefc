/**
 * Reads the server's settings from the person's own scope.
 *
 * Invariants: what a workspace says is never looked at; a setting that is not set is left out, so that the person's
 * `config.toml` and the defaults hold.
 */
import type { Settings } from "./protocol";

/** What the editor tells of one setting. */
export interface Inspected {
  readonly globalValue?: unknown;
}

const OWN = new Set(["server.command", "trace.server"]);

/** Return the names (without `handrail.`) of the settings that go to the server. */
export function namesOf(properties: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(properties)
    .map((name) => name.replace(/^handrail\./, ""))
    .filter((name) => !OWN.has(name));
}

/** Return the settings that the person set. */
export function settingsOf(names: readonly string[], inspect: (name: string) => Inspected | undefined): Settings {
  const set = names.map((name) => [name, inspect(name)?.globalValue] as const);
  return Object.fromEntries(set.filter(([, value]) => value !== undefined && value !== null && value !== ""));
}

/** Return the command of the setting `handrail.server.command`; empty if it is none. */
export function commandOf(value: unknown): string[] {
  if (!Array.isArray(value)) return [];
  return value.every((word): word is string => typeof word === "string") ? value : [];
}
