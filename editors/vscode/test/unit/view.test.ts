import assert from "node:assert/strict";
import { test } from "node:test";
import { render } from "../../src/render";
import { asked, EMPTY, reduce, type Change, type View } from "../../src/view";
import { find, textOf } from "../../src/vnode";
import { snapshot, withCall } from "./samples";

const READY: Change = { type: "server", server: { state: "ready", text: "ready" } };

function after(...changes: Change[]): View {
  return [READY, ...changes].reduce(reduce, EMPTY);
}

function showing(given = snapshot()): Change {
  return { type: "session", snapshot: given, steps: given.step ? [given.step] : [], others: 0 };
}

function byId(view: View, id: string) {
  return find(render(view), (node) => node.props["id"] === id)[0];
}

test("an older revision is never drawn", () => {
  const view = after(showing(snapshot({ revision: 12 })), {
    type: "snapshot",
    snapshot: snapshot({ revision: 11, state: "idle" }),
  });
  assert.equal(view.snapshot?.revision, 12);
  assert.notEqual(byId(view, "approval"), undefined);
});

test("a snapshot of another session changes nothing", () => {
  const view = after(showing(), { type: "snapshot", snapshot: snapshot({ sessionId: "other", revision: 99 }) });
  assert.equal(view.snapshot?.sessionId, "7f3a09c1d2e4b586");
});

test("a state that is not known is shown by its word and never as an approval", () => {
  const view = after(showing(snapshot({ state: "approving_maybe" })));
  assert.equal(asked(view.snapshot), undefined);
  assert.equal(byId(view, "approval"), undefined);
  assert.match(textOf(render(view)), /State: approving_maybe/);
});

test("approve never takes the focus, and comes after the text it is about", () => {
  const page = render(after(showing(), { type: "endSeen" }));
  assert.deepEqual(
    find(page, (node) => "autofocus" in node.props),
    [],
  );
  const order = find(page, (node) => ["approval-command", "approve"].includes(String(node.props["id"])));
  assert.deepEqual(
    order.map((node) => node.props["id"]),
    ["approval-command", "approve"],
  );
});

test("AP-29: approve is locked until the end of the text was seen, and the size is told before it", () => {
  const long = withCall({ long: true, lineCount: 302, characterCount: 316 });
  const locked = after(showing(long));
  assert.equal(byId(locked, "approve")?.props["disabled"], true);
  assert.match(textOf(byId(locked, "approval") ?? ""), /302 lines, 316 characters/);
  const seen = reduce(locked, { type: "endSeen" });
  assert.equal(byId(seen, "approve")?.props["disabled"], undefined);
});

test("AP-28: the escaped text is what is drawn", () => {
  const view = after(showing(withCall({ command: "ls \u202e", display: "ls <U+202E>" })));
  assert.equal(textOf(byId(view, "approval-command") ?? ""), "ls <U+202E>");
  const lying = after(showing(withCall({ command: "ls \u202e", display: "ls \u202e" })));
  assert.equal(textOf(byId(lying, "approval-command") ?? ""), "ls <U+202E>");
});

test("a new digest ends what was begun about the old one", () => {
  const editing = after(showing(), { type: "endSeen" }, { type: "doing", doing: "editing" });
  const changed = reduce(editing, { type: "snapshot", snapshot: withCall({ digest: "new" }, { revision: 13 }) });
  assert.deepEqual(changed.approving, { digest: "new", doing: "choosing", endSeen: false, sent: false });
  const gone = reduce(editing, {
    type: "snapshot",
    snapshot: snapshot({ revision: 13, state: "executing", pending: [] }),
  });
  assert.equal(gone.approving, undefined);
});

test("the same digest keeps what was begun, whatever else changes", () => {
  const editing = after(showing(), { type: "doing", doing: "editing" });
  const again = reduce(editing, { type: "snapshot", snapshot: snapshot({ revision: 13 }) });
  assert.equal(again.approving?.doing, "editing");
});

test("a failed decision can be made again", () => {
  const sent = after(showing(), { type: "sent" });
  assert.equal(byId(sent, "stop")?.props["disabled"], true);
  assert.equal(byId(reduce(sent, { type: "notice", text: "stale" }), "stop")?.props["disabled"], undefined);
});

test("nothing can be decided while there is no server", () => {
  const view = after(showing(), { type: "endSeen" }, { type: "server", server: { state: "restarting", text: "gone" } });
  assert.equal(byId(view, "approve")?.props["disabled"], true);
  assert.match(textOf(render(view)), /gone/);
});

test("what may not be remembered is not offered", () => {
  const offered = textOf(byId(after(showing(withCall({ mayRememberExact: true }))), "remember") ?? "");
  assert.match(offered, /This exact command/);
  const refused = textOf(
    byId(after(showing(withCall({ mayRememberExact: false, proposedRules: [] }))), "remember") ?? "",
  );
  assert.equal(refused, "Only this time");
});

test("streamed text of an older attempt or another step is dropped", () => {
  const querying = snapshot({ state: "querying", pending: [] });
  const piece = { sessionId: "7f3a09c1d2e4b586", stepId: "1", attempt: 1, channel: "text", offset: 21, text: " Now." };
  const view = after(showing(querying));
  assert.match(textOf(render(reduce(view, { type: "piece", piece }))), /Let me run the tests\. Now\./);
  assert.equal(reduce(view, { type: "piece", piece: { ...piece, attempt: 0 } }), view);
  assert.equal(reduce(view, { type: "piece", piece: { ...piece, stepId: "0" } }), view);
  assert.equal(reduce(view, { type: "piece", piece: { ...piece, sessionId: "other" } }), view);
});

test("UX-04: results appear beside their command", () => {
  const done = withCall(
    {
      status: "completed",
      startedAtMs: 1,
      result: {
        exitCode: 0,
        durationMs: 5,
        outputTail: "fine",
        outputOffset: 0,
        omittedBytes: 0,
        leftovers: [],
        changedFiles: ["file:///w/a.py"],
      },
    },
    { state: "idle", pending: [] },
  );
  const call = find(render(after(showing(done))), (node) => node.props["aria-label"] === "Command 1 of 2")[0];
  assert.match(textOf(call ?? ""), /python -m pytest -q✓ exit 0 · 5 msfineChanged files:a\.py/);
});

test("UX-07: every way of not running says why", () => {
  const reasons = [
    "rejected_by_person",
    "denied_by_rule",
    "approval_expired",
    "plan_mode",
    "workspace_untrusted",
    "cancelled",
  ];
  for (const reason of reasons) {
    const view = after(showing(withCall({ status: "rejected", reason }, { state: "idle", pending: [] })));
    assert.match(textOf(render(view)), /✗ Not run: \S+/, reason);
  }
});

test("a step of the past is described once", () => {
  const past = { ...snapshot().step, index: 1, stepId: "past" } as NonNullable<ReturnType<typeof snapshot>["step"]>;
  const given = snapshot();
  const view = after({
    type: "session",
    snapshot: { ...given, step: { ...past, index: 2, stepId: "now" } },
    steps: [past],
    others: 0,
  });
  const step = (page: View) => find(render(page), (node) => node.key === "past")[0];
  assert.equal(step(view), step(reduce(view, { type: "others", others: 1 })));
});
