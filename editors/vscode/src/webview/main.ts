/**
 * The page: draws the view, and turns what the person does into messages.
 *
 * Invariants: a decision is sent only for the digest that is on screen, by a control that the person used, and only
 * after it was there long enough to be seen; work is done once per frame, and none while nothing changes.
 */
import type { FromPage, More, ToPage, Wish } from "../messages";
import type { Call, Decision } from "../protocol";
import { render } from "../render";
import { asked, EMPTY, reduce, working, type Change, type View } from "../view";
import type { Act } from "../vnode";
import { actOf, patch } from "./dom";

declare function acquireVsCodeApi(): {
  postMessage(message: FromPage): void;
  getState(): { draft?: string } | undefined;
  setState(state: { draft: string }): void;
};

const SEEN_AFTER_MS = 400;
const OWN_KEY_MS = 1000;
const OWN_HAND_MS = 1000;
const PREVIEW_AFTER_MS = 250;
const page = acquireVsCodeApi();
let view: View = EMPTY;
let drawing = false;
let shownDigest = "";
let shownAt = 0;
const left = new WeakSet<Element>();
let lastKeyAt = -OWN_KEY_MS;
let lastHandAt = 0;

function change(each: Change): void {
  view = reduce(view, each);
  if (!drawing) {
    drawing = true;
    // A page that is not visible gets no frames; then it is drawn when it is needed.
    requestAnimationFrame(draw);
  }
}

function draw(): void {
  drawing = false;
  patch(document.body, [render(view)]);
  follow();
  afterDrawing();
}

/** Keep at their end the boxes that grow, unless the person scrolled one away from it. */
function follow(): void {
  for (const element of document.querySelectorAll("#transcript, [data-stick]")) {
    if (!left.has(element)) element.scrollTop = element.scrollHeight;
  }
}

function afterDrawing(): void {
  const digest = view.approving?.digest ?? "";
  if (digest !== shownDigest) {
    shownDigest = digest;
    shownAt = performance.now();
    page.postMessage({ type: "shown", digest });
    if (digest !== "") announce();
  }
  lookForEnd();
  const draft = promptBox();
  if (draft && draft.dataset["restored"] === undefined) {
    draft.dataset["restored"] = "";
    draft.value = page.getState()?.draft ?? "";
  }
}

/** Tell a screen reader that a decision is wanted, without taking the focus. */
function announce(): void {
  const region = document.querySelector("#announcement") ?? announcement();
  const call = asked(view.snapshot);
  region.textContent = call ? `A command waits for your approval, ${call.position} of ${call.count}.` : "";
}

function announcement(): HTMLElement {
  const region = document.createElement("div");
  region.id = "announcement";
  region.setAttribute("role", "status");
  region.className = "only-heard";
  document.body.after(region);
  return region;
}

function atEnd(element: Element): boolean {
  return element.scrollHeight - element.scrollTop - element.clientHeight < 8;
}

function scrolled(event: Event): void {
  const element = event.target;
  if (element instanceof Element) {
    if (atEnd(element)) left.delete(element);
    else if (performance.now() - lastHandAt < OWN_HAND_MS) left.add(element);
  }
  lookForEnd();
}

function lookForEnd(): void {
  const command = document.querySelector("#approval-command");
  if (command && view.approving && !view.approving.endSeen && command.clientHeight > 0 && atEnd(command)) {
    change({ type: "endSeen" });
  }
}

function promptBox(): HTMLTextAreaElement | null {
  return document.querySelector<HTMLTextAreaElement>("#prompt");
}

function valueOf(id: string): string | undefined {
  return document.querySelector<HTMLTextAreaElement | HTMLSelectElement>(`#${id}`)?.value;
}

function focusOn(id: string): void {
  requestAnimationFrame(() => document.querySelector<HTMLElement>(`#${id}`)?.focus());
}

function act(each: Act): void {
  switch (each.do) {
    case "change":
      change(each.change);
      if (each.change.type === "doing") {
        focusOn({ editing: "edit", rejecting: "reason", choosing: "approval-command" }[each.change.doing]);
      }
      break;
    case "prompt":
      sendPrompt();
      break;
    case "send":
      page.postMessage(each.message);
      break;
    case "showEnd": {
      const command = document.querySelector("#approval-command");
      if (command) command.scrollTop = command.scrollHeight;
      focusOn("approval-command");
      break;
    }
    case "decide":
      decide(each.decision);
  }
}

function decide(decision: Decision["decision"]): void {
  const call = asked(view.snapshot);
  const sessionId = view.snapshot?.sessionId;
  if (!call || sessionId === undefined || !mayDecide(call, decision)) return;
  const more: More = {};
  const remember = decision === "approve" ? valueOf("remember") : "";
  const reason = decision === "reject" ? valueOf("reason")?.trim() : "";
  if (remember) more.remember = remember;
  if (reason) more.reason = reason;
  if (decision === "approve_edited") more.command = valueOf("edit") ?? "";
  page.postMessage({ type: "decide", sessionId, callId: call.callId, digest: call.digest, decision, more });
  change({ type: "sent" });
}

/** Whether the call is the one on screen and, to let it run, was there long enough and to its end. */
function mayDecide(call: Call, decision: Decision["decision"]): boolean {
  const now = view.approving;
  const onScreen = document.querySelector<HTMLElement>("#approval")?.dataset["digest"];
  if (!now || now.sent || call.digest !== now.digest || call.digest !== onScreen) return false;
  if (decision === "reject" || decision === "stop") return true;
  if (performance.now() - shownAt < SEEN_AFTER_MS) return false;
  return decision === "approve" ? now.endSeen : now.doing === "editing";
}

/**
 * Do what a command asks for. To approve, the person's own key has to come from this very page: a command that a link,
 * a macro or the palette started only brings the focus here.
 */
function wish(each: Wish): void {
  if (each === "focus") focusOn(view.approving ? "approval-command" : "prompt");
  else if (each === "prompt") focusOn("prompt");
  else if (!view.approving) refuse("No command waits for your approval in this session.");
  else if (each === "approve") approveByKey();
  else if (each === "stop") decide("stop");
  else if (each === "remember") focusOn("remember");
  else act({ do: "change", change: { type: "doing", doing: each === "edit" ? "editing" : "rejecting" } });
}

function approveByKey(): void {
  const own = document.hasFocus() && performance.now() - lastKeyAt < OWN_KEY_MS;
  if (!own) refuse("Read the command; then press Approve, or the key of this command while the focus is here.");
  else if (view.approving?.endSeen !== true) refuse("Read the command to its end first.");
  else decide("approve");
}

function refuse(text: string): void {
  page.postMessage({ type: "refused", text });
}

function sendPrompt(): void {
  const box = promptBox();
  const text = box?.value.trim() ?? "";
  if (!box || text === "" || view.server.state !== "ready") return;
  page.postMessage({ type: "prompt", text, chips: working(view.snapshot) ? [] : [...view.chosen] });
  box.value = "";
  page.setState({ draft: "" });
  change({ type: "prompted" });
}

document.addEventListener("click", (event) => {
  const control = event.target instanceof Element ? event.target.closest("button") : null;
  const found = control && !control.disabled ? actOf(control) : undefined;
  // The second half of a double click would hit what came in the first one's place.
  if (found && (event.detail <= 1 || found.do !== "decide")) act(found);
});
document.addEventListener("keydown", (event) => {
  if (event.isTrusted && !event.repeat) lastKeyAt = performance.now();
  const target = event.target;
  if (event.repeat && event.key === "Enter" && target instanceof HTMLButtonElement) event.preventDefault();
  const sends = event.key === "Enter" && !event.shiftKey && !event.isComposing;
  if (sends && target instanceof HTMLTextAreaElement && target.id === "prompt") {
    event.preventDefault();
    sendPrompt();
  }
  if (event.key === "Escape" && view.approving && view.approving.doing !== "choosing") {
    act({ do: "change", change: { type: "doing", doing: "choosing" } });
  }
});

let previewTimer: ReturnType<typeof setTimeout> | undefined;
document.addEventListener("input", (event) => {
  const box = event.target;
  if (!(box instanceof HTMLTextAreaElement)) return;
  if (box.id === "prompt") page.setState({ draft: box.value });
  if (box.id !== "edit") return;
  clearTimeout(previewTimer);
  previewTimer = setTimeout(() => {
    const { snapshot, approving } = view;
    if (!snapshot || !approving) return;
    page.postMessage({ type: "preview", sessionId: snapshot.sessionId, digest: approving.digest, command: box.value });
  }, PREVIEW_AFTER_MS);
});
document.addEventListener("scroll", scrolled, { capture: true, passive: true });
window.addEventListener("resize", () => {
  follow();
  lookForEnd();
});
window.addEventListener("message", (event: MessageEvent<ToPage>) => {
  const message = event.data;
  if (message.type === "wish") wish(message.wish);
  else change(message);
});
// Only a person scrolls away from the end; layout and our own following fire the same event.
for (const type of ["wheel", "pointermove", "keydown", "touchmove"]) {
  document.addEventListener(type, () => (lastHandAt = performance.now()), { capture: true, passive: true });
}
for (const type of ["focus", "blur"]) {
  window.addEventListener(type, () => page.postMessage({ type: "focused", focused: type === "focus" }));
}
page.postMessage({ type: "ready" });
draw();
