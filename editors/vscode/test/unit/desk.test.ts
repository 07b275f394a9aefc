import assert from "node:assert/strict";
import { test } from "node:test";
import { Desk, Refused, resumable, summary, type Ask } from "../../src/desk";
import type { ToPage } from "../../src/messages";
import type { SessionInfo, Snapshot } from "../../src/protocol";
import { snapshot } from "./samples";

const NEW: Snapshot = snapshot({ sessionId: "new", steps: 0, state: "idle", pending: [] });

function desk(answers: Record<string, unknown> = {}) {
  const asked: [string, unknown][] = [];
  const shown: ToPage[] = [];
  const ask = ((method: string, params: unknown) => {
    asked.push([method.replace("handrail/", ""), params]);
    const answer = answers[method.replace("handrail/session/", "")];
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  }) as Ask;
  return {
    desk: new Desk(
      ask,
      (message) => shown.push(message),
      () => undefined,
    ),
    asked,
    shown,
  };
}

async function waiting(answers: Record<string, unknown> = {}) {
  const made = desk({ load: snapshot(), transcript: { steps: [], total: 1 }, ...answers });
  await made.desk.load("7f3a09c1d2e4b586");
  made.asked.length = 0;
  return made;
}

const DIGEST = snapshot().step?.calls[0]?.digest ?? "";

test("a decision repeats the digest shown, and always has params", async () => {
  const made = await waiting({ decide: snapshot({ revision: 13, state: "executing", pending: [] }) });
  await made.desk.decide("7f3a09c1d2e4b586", "1.1", DIGEST, "approve", {});
  assert.deepEqual(made.asked, [
    [
      "session/decide",
      { sessionId: "7f3a09c1d2e4b586", decisions: [{ callId: "1.1", digest: DIGEST, decision: "approve" }] },
    ],
  ]);
});

test("a decision about anything else than what waits is not sent", async () => {
  const made = await waiting();
  const wrong: [string, string, string][] = [
    ["7f3a09c1d2e4b586", "1.1", "another digest"],
    ["7f3a09c1d2e4b586", "1.2", DIGEST],
    ["other", "1.1", DIGEST],
  ];
  for (const [session, call, digest] of wrong) {
    await assert.rejects(made.desk.decide(session, call, digest, "approve", {}), Refused);
  }
  made.desk.take(snapshot({ revision: 13, state: "later_word" }));
  await assert.rejects(made.desk.decide("7f3a09c1d2e4b586", "1.1", DIGEST, "approve", {}), Refused);
  assert.deepEqual(made.asked, []);
});

test("after a refused decision the state of now is read", async () => {
  const now = snapshot({ revision: 14, state: "idle", pending: [] });
  const made = await waiting({ decide: new Error("stale"), get: now });
  await assert.rejects(made.desk.decide("7f3a09c1d2e4b586", "1.1", DIGEST, "approve", {}), /stale/);
  assert.equal(made.desk.current?.revision, 14);
});

test("an older snapshot replaces nothing", async () => {
  const made = await waiting();
  made.desk.take(snapshot({ revision: 3, state: "idle", pending: [] }));
  assert.equal(made.desk.pending, 1);
});

test("a prompt starts a turn, and is queued while one runs", async () => {
  const made = desk({
    new: NEW,
    step: { ...NEW, revision: 13, state: "querying" },
    queue: { ...NEW, revision: 14, state: "querying" },
  });
  await made.desk.open("file:///w");
  await made.desk.prompt("Go.", [{ kind: "file", uri: "file:///w/a" }]);
  await made.desk.prompt("More.", []);
  assert.deepEqual(made.asked, [
    ["session/new", { cwd: "file:///w" }],
    [
      "session/step",
      { sessionId: "new", prompt: "Go.", context: [{ kind: "file", uri: "file:///w/a" }], maxSteps: null },
    ],
    ["session/queue", { sessionId: "new", prompt: "More." }],
  ]);
});

test("two sessions: what waits in the other one is counted and never drawn as this one's", async () => {
  const made = await waiting({ new: NEW });
  await made.desk.open("file:///w");
  assert.equal(made.desk.current?.sessionId, "new");
  assert.equal(made.desk.waiting?.sessionId, "7f3a09c1d2e4b586");
  assert.deepEqual(made.shown.at(-1), { type: "session", snapshot: NEW, steps: [], others: 1 });
  made.desk.take(snapshot({ revision: 13, state: "idle", pending: [] }));
  assert.deepEqual(made.shown.at(-1), { type: "others", others: 0 });
});

test("LS-10: when the server is lost nothing waits any more", async () => {
  const made = await waiting();
  made.desk.lose();
  assert.equal(made.desk.pending, 0);
  assert.equal(made.desk.current?.state, "closed");
  await assert.rejects(made.desk.cancel(), Refused);
});

test("a step that is over is read once more, since its last update may have been left out", async () => {
  const first = snapshot().step;
  assert.ok(first);
  const whole = { ...first, text: "whole" };
  const made = await waiting({ transcript: { steps: [whole], total: 2 } });
  made.desk.take(snapshot({ revision: 13, steps: 2, step: { ...first, index: 2, stepId: "2" } }));
  await new Promise(setImmediate);
  assert.deepEqual(made.shown.at(-1), { type: "steps", sessionId: "7f3a09c1d2e4b586", steps: [whole] });
});

test("the export of a stored session leaves it closed", async () => {
  const made = desk({ load: snapshot(), export: { text: "{}" }, close: snapshot() });
  assert.equal(await made.desk.export("7f3a09c1d2e4b586", "handrail"), "{}");
  assert.deepEqual(
    made.asked.map(([method]) => method),
    ["session/load", "session/export", "session/close"],
  );
  assert.equal(made.desk.current, undefined);
});

test("the status bar's words hold no command", async () => {
  const made = await waiting();
  assert.equal(summary(made.desk), "1 command waits for you");
  made.desk.take(snapshot({ revision: 13, state: "querying", pending: [] }));
  assert.equal(summary(made.desk), "thinking");
});

test("a window opens again what waits and what it showed, the last at work first", () => {
  const info = (sessionId: string, pending: number, updatedAtMs: number, more: Partial<SessionInfo> = {}) =>
    ({ sessionId, pending, updatedAtMs, ...more }) as SessionInfo;
  const all = [info("old", 0, 1), info("shown", 0, 2), info("waits", 1, 3), info("held", 1, 4, { holder: "42" })];
  assert.deepEqual(
    resumable(all, "shown").map((each) => each.sessionId),
    ["waits", "shown"],
  );
});
