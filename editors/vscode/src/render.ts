/**
 * What the page looks like: view to elements, without the approval (see `approval.ts`) and the steps (see `steps.ts`).
 *
 * Invariants: every text that is not ours is escaped; an unknown state is shown by its word and offers no decision.
 */
import { approval } from "./approval";
import type { Snapshot, Usage } from "./protocol";
import { drawStep, personCommand } from "./steps";
import { count, escape, meaning, money, nameOf, pathOf, seconds } from "./text";
import { asked, unfinished, working, type View } from "./view";
import { h, type VNode } from "./vnode";

/** Draw the whole page. */
export function render(view: View): VNode {
  return h(
    "main",
    {},
    header(view),
    transcript(view),
    h(
      "div",
      { key: "below", class: "below" },
      notice(view),
      elsewhere(view),
      approval(view),
      composer(view),
      footer(view),
    ),
  );
}

function header(view: View): VNode | false {
  const snapshot = view.snapshot;
  if (!snapshot) return false;
  const trusted = snapshot.mode === "trusted";
  return h(
    "header",
    { key: "header" },
    h("h1", { title: pathOf(snapshot.cwd) }, escape(snapshot.title) || "New session"),
    h(
      "p",
      { class: "facts" },
      h("span", { title: pathOf(snapshot.cwd) }, nameOf(snapshot.cwd)),
      h("span", {}, escape(snapshot.model) || "no model yet"),
      h(
        "button",
        {
          class: trusted ? "link warning" : "link",
          title: "Change how commands are judged",
          act: { do: "send", message: { type: "act", act: "mode", id: "" } },
        },
        `mode ${escape(snapshot.mode)}`,
      ),
    ),
    trusted && h("p", { class: "warning" }, "Commands run without being asked, but those that a rule denies or asks."),
  );
}

function transcript(view: View): VNode {
  return h(
    "div",
    { key: "transcript", id: "transcript", role: "log", "aria-label": "Transcript", "aria-live": "off", tabindex: "0" },
    ...(view.snapshot ? view.steps.map((step) => drawStep(view, step)) : [empty(view)]),
    personCommand(view),
    closing(view.snapshot),
  );
}

function empty(view: View): VNode {
  const { state, text } = view.server;
  if (state === "ready") {
    return h(
      "div",
      { key: "empty", class: "empty" },
      h("p", { class: "lead" }, "Give the agent a task."),
      h("p", {}, "It works one step at a time. You see every command before it runs, and you decide."),
      h("p", {}, button("Sessions of this folder…", "sessions")),
      h("p", {}, button("How it works", "walkthrough")),
    );
  }
  const ways = { missing: "setServer", failed: "restart" } as const;
  const labels = { setServer: "Set the server’s command…", restart: "Restart the server" };
  const way = state === "missing" || state === "failed" ? ways[state] : undefined;
  return h(
    "div",
    { key: "empty", class: "empty" },
    h("p", { class: "lead" }, escape(text)),
    way && h("p", {}, button(labels[way], way)),
    way && h("p", {}, button("Show the log", "showLog")),
  );
}

function button(label: string, act: "sessions" | "walkthrough" | "setServer" | "restart" | "showLog"): VNode {
  return h("button", { class: "link", act: { do: "send", message: { type: "act", act, id: "" } } }, label);
}

function closing(snapshot: Snapshot | undefined): VNode | false {
  if (!snapshot || (snapshot.state !== "idle" && snapshot.state !== "closed") || snapshot.steps === 0) return false;
  const reason = snapshot.stopReason;
  const well = reason === "end_turn" || reason === "submitted";
  const why = reason ? meaning("StopReason", reason) : meaning("State", snapshot.state);
  return h(
    "div",
    { key: "closing", class: well ? "closing good" : "closing" },
    h("p", {}, `${well ? "✓" : "■"} ${capital(why)}.`),
    snapshot.error && h("p", { class: "error" }, escape(snapshot.error.message)),
    unfinished(snapshot) &&
      h("button", { act: { do: "send", message: { type: "act", act: "continue", id: "" } } }, "Continue"),
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function notice(view: View): VNode {
  const server = view.snapshot && view.server.state !== "ready" ? view.server.text : "";
  return h("p", { key: "notice", class: "notice", role: "alert" }, escape(view.notice || server));
}

function elsewhere(view: View): VNode | false {
  if (view.others === 0) return false;
  return h(
    "p",
    { key: "others", class: "notice" },
    `${count(view.others, "command")} of another session ${view.others === 1 ? "waits" : "wait"}. `,
    h("button", { class: "link", act: { do: "send", message: { type: "act", act: "showOther", id: "" } } }, "Show"),
  );
}

function composer(view: View): VNode {
  const busy = working(view.snapshot);
  const usable = view.server.state === "ready";
  return h(
    "section",
    { key: "composer", id: "composer", "aria-label": "Prompt" },
    h(
      "div",
      { class: "chips", role: "group", "aria-label": "Context to give along" },
      ...(busy ? [] : view.chips).map((chip) => {
        const chosen = view.chosen.includes(chip.id);
        return h(
          "button",
          {
            key: chip.id,
            type: "button",
            class: "chip",
            "aria-pressed": String(chosen),
            act: { do: "change", change: { type: "chip", id: chip.id } },
          },
          `${chosen ? "✓" : "+"} ${escape(chip.label)}`,
        );
      }),
    ),
    ...(view.snapshot?.queued ?? []).map((queued) =>
      h(
        "p",
        { key: queued.promptId, class: "queued" },
        `Waits for the next query: ${escape(queued.prompt)} `,
        h(
          "button",
          {
            type: "button",
            class: "link",
            act: send("withdraw", queued.promptId),
            "aria-label": "Take the prompt back",
          },
          "take back",
        ),
      ),
    ),
    h("textarea", {
      key: "prompt",
      id: "prompt",
      rows: busy ? "2" : "3",
      "aria-label": busy ? "What to tell the agent" : "Task for the agent",
      placeholder: busy ? "Tell the agent more; it is sent with the next query" : "Describe a task. Enter sends it.",
    }),
    h(
      "div",
      { class: "buttons" },
      h("p", { class: "activity", role: "status" }, activity(view)),
      busy &&
        h(
          "button",
          { key: "cancel", type: "button", class: "secondary", disabled: !usable, act: send("cancel", "") },
          "Cancel turn",
        ),
      h(
        "button",
        { key: "send", id: "send", type: "button", disabled: !usable, act: { do: "prompt" } },
        busy ? "Queue" : "Send",
      ),
    ),
  );
}

function send(act: "withdraw" | "cancel", id: string) {
  return { do: "send", message: { type: "act", act, id } } as const;
}

/** Say in a few words what the session does now; nothing when it rests. */
export function activity(view: View): string {
  const snapshot = view.snapshot;
  if (!snapshot || view.server.state !== "ready") return "";
  const retry = snapshot.retry;
  if (retry) return `Attempt ${retry.attempt} in ${seconds(retry.inSeconds)}: ${escape(retry.reason)}`;
  if (asked(snapshot)) return ""; // the approval itself says so
  const words: Record<string, string> = {
    idle: "",
    closed: "",
    querying: "The model is thinking…",
    executing: "Running…",
    cancelling: "Stopping…",
  };
  return words[snapshot.state] ?? `State: ${escape(snapshot.state)}`;
}

function footer(view: View): VNode | false {
  const snapshot = view.snapshot;
  if (!snapshot || snapshot.steps === 0) return false;
  return h("footer", { key: "footer" }, usage(snapshot.usage, snapshot.steps));
}

function usage(used: Usage, steps: number): string {
  const facts = [
    count(steps, "step"),
    `${used.inputTokens.toLocaleString("en-US")} tokens in`,
    `${used.outputTokens.toLocaleString("en-US")} out`,
    money(used.cost, used.costKnown),
  ];
  if (used.contextTokens !== undefined && used.contextWindow) {
    facts.push(`${Math.round((100 * used.contextTokens) / used.contextWindow)} % of the context`);
  }
  return facts.join(" · ");
}
