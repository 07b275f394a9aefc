/**
 * Finds the command that starts the server.
 *
 * Invariants: never a file of an open workspace unless the person's own settings or interpreter name it; a relative
 * entry of PATH is passed over; nothing is started here.
 */
import { basename, delimiter, dirname, isAbsolute, join, sep } from "node:path";

export interface Places {
  /** The setting `handrail.server.command`, from the person's own scope. */
  readonly setting: readonly string[];
  /** Interpreters that the Python extensions tell, best first. */
  readonly interpreters: readonly string[];
  /** The environment's PATH. */
  readonly path: string;
  /** Where `Handrail: Install Server` puts it. */
  readonly installed: string;
  /** The open folders. */
  readonly folders: readonly string[];
  readonly isFile: (path: string) => boolean;
}

export type Found = { readonly command: readonly string[]; readonly source: string } | { readonly problem: string };

const SCRIPT = "handrail";

/** Find the server: the setting, then the Python extensions, then PATH, then our own installation. */
export function findServer(places: Places): Found {
  const [program] = places.setting;
  if (program !== undefined) return fromSetting(places, program);
  for (const interpreter of places.interpreters) {
    const script = join(dirname(interpreter), SCRIPT);
    if (isAbsolute(interpreter) && places.isFile(script))
      return found(script, `the environment of ${basename(interpreter)}`);
  }
  for (const entry of places.path.split(delimiter)) {
    const script = join(entry, SCRIPT);
    if (!isAbsolute(entry) || places.folders.some((folder) => within(entry, folder))) continue;
    if (places.isFile(script)) return found(script, "PATH");
  }
  if (places.isFile(places.installed)) return found(places.installed, "its own environment");
  return {
    problem:
      "Handrail’s server was not found: not in the Python environment that is selected, and not on PATH. " +
      "Install it, or name its command in the setting “handrail.server.command”.",
  };
}

function fromSetting(places: Places, program: string): Found {
  if (isAbsolute(program) && !places.isFile(program)) {
    return { problem: `There is no ${program}. Correct the setting “handrail.server.command”.` };
  }
  return { command: places.setting, source: "the setting “handrail.server.command”" };
}

function found(script: string, source: string): Found {
  return { command: [script, "serve"], source };
}

function within(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}
