/** The protocol's golden samples, which the server's tests hold to its definition. */
import { readFileSync } from "node:fs";
import type { Call, Snapshot } from "../../src/protocol";

export function snapshot(changes: Partial<Snapshot> = {}): Snapshot {
  // Tests are run from the extension's folder.
  const golden = readFileSync("../../tests/wire/golden/session.didUpdate.json", "utf8");
  return { ...(JSON.parse(golden) as { params: Snapshot }).params, ...changes };
}

export function withCall(changes: Partial<Call>, more: Partial<Snapshot> = {}): Snapshot {
  const sample = snapshot(more);
  const [first, ...others] = sample.step?.calls ?? [];
  if (!sample.step || !first) throw new Error("the sample has no call");
  return { ...sample, step: { ...sample.step, calls: [{ ...first, ...changes }, ...others] } };
}
