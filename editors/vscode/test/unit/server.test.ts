import assert from "node:assert/strict";
import { test } from "node:test";
import { findServer, type Places } from "../../src/find";
import { fromPage } from "../../src/messages";
import { Restarts } from "../../src/restarts";
import { commandOf, namesOf, settingsOf } from "../../src/settings";

function places(changes: Partial<Places>, files: readonly string[] = []): Places {
  const none = { setting: [], interpreters: [], path: "", installed: "/home/own/handrail", folders: ["/w"] };
  return { ...none, isFile: (path) => files.includes(path), ...changes };
}

test("the setting comes first, then Python's environment, then PATH, then our own", () => {
  const files = ["/set/handrail", "/venv/bin/handrail", "/bin/handrail", "/home/own/handrail"];
  const all = { setting: ["/set/handrail", "serve"], interpreters: ["/venv/bin/python"], path: "/bin" };
  const sources: Partial<Places>[] = [all, { ...all, setting: [] }, { path: "/bin" }, {}];
  const found = sources.map((each) => findServer(places(each, files)));
  assert.deepEqual(
    found.map((each) => ("command" in each ? each.command : each.problem)),
    [
      ["/set/handrail", "serve"],
      ["/venv/bin/handrail", "serve"],
      ["/bin/handrail", "serve"],
      ["/home/own/handrail", "serve"],
    ],
  );
});

test("F21: neither a relative entry of PATH nor one inside the workspace is used", () => {
  const found = findServer(
    places({ path: ".:bin::/w:/w/bin" }, ["handrail", "bin/handrail", "/w/handrail", "/w/bin/handrail"]),
  );
  assert.ok("problem" in found);
});

test("what is missing is named with its way out", () => {
  const found = findServer(places({ setting: ["/gone/handrail", "serve"] }));
  assert.deepEqual(found, { problem: "There is no /gone/handrail. Correct the setting “handrail.server.command”." });
  const nowhere = findServer(places({}));
  assert.match("problem" in nowhere ? nowhere.problem : "", /Install it, or name its command/);
});

test("LS-13: one crash is repaired at once, five in three minutes end it", () => {
  const restarts = new Restarts();
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((at) => restarts.after(at * 1000)),
    [0, 500, 1000, 2000, undefined],
  );
  restarts.forget();
  assert.equal(restarts.after(5000), 0);
  assert.equal(restarts.after(5000 + 10 * 60_000), 0);
});

test("settings are read from the person's own scope alone", () => {
  const inspected: Record<string, object> = {
    model: { globalValue: "mine", workspaceValue: "theirs" },
    mode: { workspaceValue: "trusted" },
    record: { globalValue: "" },
  };
  const names = namesOf({
    "handrail.model": 0,
    "handrail.mode": 0,
    "handrail.record": 0,
    "handrail.server.command": 0,
  });
  assert.deepEqual(names, ["model", "mode", "record"]);
  assert.deepEqual(
    settingsOf(names, (name) => inspected[name]),
    { model: "mine" },
  );
});

test("a command that is none is taken for none", () => {
  assert.deepEqual(commandOf(["a", "b"]), ["a", "b"]);
  for (const wrong of [undefined, "a b", [1], { 0: "a" }]) assert.deepEqual(commandOf(wrong), []);
});

test("a message of the page that does not fit is ignored", () => {
  const decide = { type: "decide", sessionId: "s", callId: "c", digest: "d", decision: "approve", more: {} };
  assert.deepEqual(fromPage(decide), decide);
  const wrong = [
    null,
    "ready",
    { ...decide, decision: "yes" },
    { ...decide, digest: 1 },
    { ...decide, more: { command: 1 } },
    { ...decide, more: undefined },
    { type: "act", act: "toString", id: "" },
    { type: "act", act: "cancel" },
    { type: "prompt", text: "x", chips: [1] },
    { type: "later" },
  ];
  for (const each of wrong) assert.equal(fromPage(each), undefined, JSON.stringify(each));
  assert.deepEqual(fromPage({ type: "act", act: "cancel", id: "", more: 1 }), { type: "act", act: "cancel", id: "" });
});
