/**
 * What the approval looks like: the literal text, what a person should know, and the choices.
 *
 * Invariants: nothing of it takes the focus by itself; a text that does not fit on screen cannot be approved before its
 * end was seen; every decision is about the digest on screen.
 */
import type { Call } from "./protocol";
import { count, escape, nameOf, pathOf, seconds } from "./text";
import { asked, type Approving, type View } from "./view";
import { h, type Child, type VNode } from "./vnode";

/** Draw the approval on screen, if there is one. */
export function approval(view: View): VNode | false {
  const call = asked(view.snapshot);
  const now = view.approving;
  if (!call || !now) return false;
  const more = (view.snapshot?.pending.length ?? 1) - 1;
  return h(
    "section",
    { key: `approval-${call.digest}`, id: "approval", "aria-labelledby": "approval-title", "data-digest": call.digest },
    h(
      "h2",
      { id: "approval-title" },
      call.count > 1 ? `Run command ${call.position} of ${call.count}?` : "Run this command?",
      more > 0 && h("span", { class: "quiet" }, ` ${more} more ${more === 1 ? "waits" : "wait"}`),
    ),
    facts(call),
    h(
      "pre",
      {
        id: "approval-command",
        class: "command",
        tabindex: "0",
        role: "region",
        "aria-label": `Command, ${size(call)}`,
        dir: "ltr",
      },
      escape(call.display),
    ),
    ...warnings(call),
    now.doing === "editing" && editor(call, now),
    now.doing === "rejecting" && reasonBox(),
    choices(view, call, now),
  );
}

function size(call: Call): string {
  return `${count(call.lineCount, "line")}, ${count(call.characterCount, "character")}`;
}

function facts(call: Call): VNode {
  const parts: Child[] = [
    h("span", { title: pathOf(call.cwd) }, `in ${nameOf(call.cwd)}`),
    ` · at most ${seconds(call.timeout)}`,
  ];
  if (call.sandbox !== "off") parts.push(` · sandbox ${escape(call.sandbox)}`);
  if (call.addedEnvironment.length > 0) parts.push(` · with ${escape(call.addedEnvironment.join(", "))}`);
  if (call.long || call.lineCount > 1) parts.push(" · ", h("strong", {}, size(call)));
  return h("p", { class: "facts" }, ...parts);
}

function warnings(call: Call): VNode[] {
  const texts = call.warnings.map(escape);
  if (call.relatedRejection !== undefined) texts.push("It is like a command that you rejected in this turn.");
  const shown = texts.map((text, at) => h("p", { key: `warning-${at}`, class: "warning" }, `⚠ ${text}`));
  if (call.verdict && call.verdict.why !== "") {
    shown.push(
      h("p", { key: "verdict", class: "quiet" }, `${judged(call.verdict.decision)}: ${escape(call.verdict.why)}`),
    );
  }
  if (call.unsavedFiles.length > 0) {
    const files = call.unsavedFiles.map(nameOf).join(", ");
    const act = { do: "send", message: { type: "act", act: "saveAll", id: "" } } as const;
    const save = h("button", { class: "link", act }, "Save all files");
    shown.push(h("p", { key: "unsaved", class: "unsaved" }, `Unsaved: ${files}. `, save));
  }
  return shown;
}

function judged(decision: string): string {
  return { ask: "Asked", deny: "Denied", allow: "Allowed" }[decision] ?? escape(decision);
}

function editor(call: Call, now: Approving): VNode {
  const preview = now.preview;
  return h(
    "div",
    { key: "editor" },
    h("label", { for: "edit" }, "Run this instead"),
    h("textarea", { id: "edit", class: "command", rows: "4", spellcheck: "false", dir: "ltr", initial: call.command }),
    preview &&
      preview.display !== preview.command &&
      h("pre", { key: "display", class: "command" }, escape(preview.display)),
    ...(preview?.warnings ?? []).map((text, at) => h("p", { key: `w-${at}`, class: "warning" }, `⚠ ${escape(text)}`)),
    preview && preview.verdict === "deny" && h("p", { key: "deny", class: "error" }, "A rule denies this text."),
  );
}

function reasonBox(): VNode {
  return h(
    "div",
    { key: "reason" },
    h("label", { for: "reason" }, "Reason, told to the model (may be empty)"),
    h("textarea", { id: "reason", rows: "2", initial: "" }),
  );
}

function choices(view: View, call: Call, now: Approving): VNode {
  const off = now.sent || view.server.state !== "ready";
  return h(
    "div",
    { key: "choices", class: "buttons", role: "group", "aria-label": "Decision" },
    ...(now.doing === "editing" ? editing(off) : now.doing === "rejecting" ? rejecting(off) : choosing(call, now, off)),
  );
}

function choosing(call: Call, now: Approving, off: boolean): (VNode | false)[] {
  return [
    remembering(call),
    !now.endSeen &&
      h("button", { key: "end", type: "button", class: "secondary", act: { do: "showEnd" } }, "Show the end"),
    h(
      "button",
      {
        key: "approve",
        id: "approve",
        type: "button",
        disabled: off || !now.endSeen,
        title: now.endSeen ? "Run exactly this text" : "Read the command to its end first",
        act: { do: "decide", decision: "approve" },
      },
      "Approve",
    ),
    doing("edit", "Edit…", "editing", off),
    doing("reject", "Reject…", "rejecting", off),
    h(
      "button",
      {
        key: "stop",
        id: "stop",
        type: "button",
        class: "secondary",
        disabled: off,
        title: "Reject everything that waits and end the turn",
        act: { do: "decide", decision: "stop" },
      },
      "Stop",
    ),
  ];
}

function remembering(call: Call): VNode {
  return h(
    "select",
    { key: "remember", id: "remember", "aria-label": "For how long the approval counts" },
    h("option", { value: "" }, "Only this time"),
    call.mayRememberExact && h("option", { value: "exact" }, "This exact command, in this session"),
    ...call.proposedRules.map((rule) =>
      h("option", { value: rule.words, title: escape(rule.why ?? "") }, `All that begin with: ${escape(rule.words)}`),
    ),
  );
}

function doing(id: string, label: string, next: Approving["doing"], off: boolean): VNode {
  const act = { do: "change", change: { type: "doing", doing: next } } as const;
  return h("button", { key: id, id, type: "button", class: "secondary", disabled: off, act }, label);
}

function editing(off: boolean): VNode[] {
  return [
    h(
      "button",
      {
        key: "run-edited",
        id: "run-edited",
        type: "button",
        disabled: off,
        act: { do: "decide", decision: "approve_edited" },
      },
      "Run the edited text",
    ),
    doing("back", "Back", "choosing", off),
  ];
}

function rejecting(off: boolean): VNode[] {
  return [
    h(
      "button",
      { key: "reject-now", id: "reject-now", type: "button", disabled: off, act: { do: "decide", decision: "reject" } },
      "Reject",
    ),
    doing("back", "Back", "choosing", off),
  ];
}
