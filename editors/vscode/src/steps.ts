/**
 * What a step looks like: what was said, what the model answered, its commands, and what became of each.
 *
 * Invariants: a command that waits is shown here without any choice; a step of the past is described once.
 */
import type { Call, CommandResult, Said, Step } from "./protocol";
import { count, escape, meaning, nameOf, output, pathOf, seconds } from "./text";
import { asked, tailKey, type View } from "./view";
import { h, type Act, type VNode } from "./vnode";

const described = new WeakMap<Step, VNode>();
const OVER = ["completed", "failed", "rejected", "cancelled", "timed_out", "interrupted"];

/** Draw a step; one that is over is the same description every time, which the page then does not look into. */
export function drawStep(view: View, step: Step): VNode {
  const current = step.stepId === view.snapshot?.step?.stepId;
  if (current) return describe(view, step, true);
  let known = described.get(step);
  if (!known) described.set(step, (known = describe(view, step, false)));
  return known;
}

function describe(view: View, step: Step, current: boolean): VNode {
  const live = (channel: string) => (current ? view.tails.get(tailKey(step.stepId, channel)) : undefined);
  const text = live("text")?.text ?? step.text;
  const reasoning = live("reasoning")?.text ?? step.reasoning;
  return h(
    "section",
    { key: step.stepId, class: "step", "aria-label": `Step ${step.index}` },
    ...step.said.map(said),
    reasoning !== "" &&
      h(
        "details",
        { key: "reasoning" },
        h("summary", {}, "Reasoning"),
        h("p", { class: "quiet prose" }, escape(reasoning)),
      ),
    text.trim() !== "" && h("p", { key: "text", class: "prose" }, escape(text.trim())),
    ...step.calls.map((call) => drawCall(view, call, current)),
  );
}

function said(each: Said, at: number): VNode {
  const labels: Record<string, string> = { correction: "Told the model: ", person_ran: "You ran: ", notice: "" };
  const label = labels[each.origin];
  return label === undefined
    ? h("p", { key: `said-${at}`, class: "said" }, escape(each.text.trim()))
    : h("p", { key: `said-${at}`, class: "quiet prose" }, label + escape(each.text.trim()));
}

/** Draw the person's own command, running or last. */
export function personCommand(view: View): VNode | false {
  const call = view.snapshot?.personCommand;
  if (!call) return false;
  return h("section", { key: "person", class: "step", "aria-label": "Your command" }, drawCall(view, call, true));
}

function drawCall(view: View, call: Call, current: boolean): VNode {
  const onScreen = current && asked(view.snapshot)?.callId === call.callId;
  if (onScreen) return h("p", { key: call.callId, class: "quiet" }, `${place(call)}waits for your decision below.`);
  return h(
    "article",
    { key: call.callId, class: "call", "aria-label": `Command ${call.position} of ${call.count}` },
    h("pre", { key: "command", class: "command", tabindex: "0", "aria-label": "Command" }, escape(call.display)),
    h("p", { key: "ending", class: `ending ${tone(call)}` }, ending(call)),
    ...facts(call),
    ...outputs(view, call),
    ...controls(call),
  );
}

/** Say which call of its reply this is; nothing if it is the only one. */
export function place(call: Call): string {
  return call.count > 1 ? `Command ${call.position} of ${call.count} ` : "The command ";
}

function tone(call: Call): string {
  if (call.status === "completed" && call.result?.exitCode === 0) return "good";
  return OVER.includes(call.status) ? "bad" : "quiet";
}

function ending(call: Call): string {
  if (!OVER.includes(call.status)) return unended(call);
  const result = call.result;
  const why = whyNot(call);
  if (!hasRun(call)) return `✗ Not run: ${why || escape(call.status)}`;
  const well = call.status === "completed";
  const parts = [
    well ? "" : escape(call.status).replace("_", " "),
    result?.exitCode === undefined ? "" : `exit ${result.exitCode}`,
    escape(result?.signal ?? ""),
    well || call.reason === "cancelled" ? "" : why,
    result ? seconds(result.durationMs / 1000) : "",
  ];
  return `${tone(call) === "good" ? "✓" : "✗"} ${parts.filter((part) => part !== "").join(" · ")}`;
}

function hasRun({ startedAtMs, result }: Call): boolean {
  return startedAtMs !== undefined || result?.exitCode !== undefined || result?.signal !== undefined;
}

function unended(call: Call): string {
  const words: Record<string, string> = {
    pending: "Waits",
    awaiting_approval: "Waits for your decision",
    approved: "Approved, runs next",
    running: "Running",
  };
  return words[call.status] ?? `Status: ${escape(call.status)}`;
}

function whyNot(call: Call): string {
  if (call.decisionReason)
    return `${call.reason ? meaning("Reason", call.reason) : ""}: ${escape(call.decisionReason)}`;
  if (call.reason === "denied_by_rule" && call.verdict)
    return `${meaning("Reason", call.reason)}: ${escape(call.verdict.why)}`;
  if (call.result?.error && (call.reason === undefined || call.reason === "unusable")) return escape(call.result.error);
  return call.reason ? meaning("Reason", call.reason) : "";
}

function facts(call: Call): VNode[] {
  const lines: string[] = [];
  if (call.verdict?.decision === "allow" && call.status !== "rejected")
    lines.push(`Runs by itself: ${escape(call.verdict.why)}`);
  if (call.editedFrom !== undefined) lines.push("You changed this command before it ran.");
  for (const left of call.result?.leftovers ?? []) lines.push(`Still running, ends with the session: ${escape(left)}`);
  if (call.result?.omittedBytes) lines.push(`The model was not shown ${count(call.result.omittedBytes, "byte")}.`);
  return lines.map((line, at) => h("p", { key: `fact-${at}`, class: "quiet" }, line));
}

function outputs(view: View, call: Call): VNode[] {
  const live = view.tails.get(tailKey("", "output", call.callId));
  const result = call.result;
  const text = live?.text ?? result?.outputTail ?? "";
  const shown: VNode[] = [];
  if (text !== "") {
    const label = live ? "Output so far" : "Output";
    shown.push(
      h(
        "pre",
        { key: "output", class: "output", tabindex: "0", "aria-label": label, "data-stick": live && true },
        output(text),
      ),
    );
  }
  if (result) shown.push(...files(call, result));
  return shown;
}

function files(call: Call, result: CommandResult): VNode[] {
  const links: VNode[] = [];
  const cut = result.outputOffset > 0 || result.omittedBytes > 0;
  if (cut && result.outputUri !== undefined)
    links.push(link("Open all of the output", { act: "openOutput", id: call.callId }, "all"));
  for (const uri of result.changedFiles) {
    links.push(h("li", { key: uri, title: pathOf(uri) }, link(nameOf(uri), { act: "openChanges", id: uri }, uri)));
  }
  if (result.changedFiles.length === 0) return links;
  return [h("p", { key: "changed", class: "quiet" }, "Changed files:"), h("ul", { key: "files" }, ...links)];
}

function controls(call: Call): VNode[] {
  if (call.status !== "running") return [];
  return [
    h(
      "p",
      { key: "controls" },
      link("Cancel this command", { act: "cancelCall", id: call.callId }, "cancel"),
      " · ",
      link("Leave it running and go on", { act: "detach", id: call.callId }, "detach"),
    ),
  ];
}

function link(
  label: string,
  message: { act: "openOutput" | "openChanges" | "cancelCall" | "detach"; id: string },
  key: string,
): VNode {
  const act: Act = { do: "send", message: { type: "act", ...message } };
  return h("button", { key, class: "link", act }, label);
}
