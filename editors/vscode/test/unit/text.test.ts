import assert from "node:assert/strict";
import { test } from "node:test";
import { count, escape, meaning, money, nameOf, output, pathOf, seconds } from "../../src/text";

test("AP-28: what hides or turns text is shown as its code point", () => {
  const command = "echo a\u202etxt.exe\u202c \u200b \u001b[2K\u{e0100}\ufe0f\u00ad\u2028";
  assert.equal(escape(command), "echo a<U+202E>txt.exe<U+202C> <U+200B> <U+001B>[2K<U+E0100><U+FE0F><U+00AD><U+2028>");
  assert.equal(escape("a\tb\nc é 中 \u00a0"), "a\tb\nc é 中 \u00a0");
  assert.equal(escape("\ud800"), "<U+D800>");
});

test("an output keeps its words, not its colours; of a line that was overwritten the last is kept", () => {
  assert.equal(output("\u001b[31mred\u001b[0m\r\n"), "red\n");
  assert.equal(output("10 %\r50 %\r100 %\ndone"), "100 %\ndone");
  assert.equal(output("a\u0007b"), "a<U+0007>b");
});

test("an unknown cost is no number", () => {
  assert.equal(money(undefined, false), "cost unknown");
  assert.equal(money(0, true), "$0.0000");
  assert.equal(money(0.25, false), "cost unknown (at least $0.2500)");
});

test("numbers, durations and paths", () => {
  assert.equal(count(1, "step"), "1 step");
  assert.equal(count(2000, "step"), "2,000 steps");
  assert.deepEqual([0.05, 3, 120].map(seconds), ["50 ms", "3.0 s", "120 s"]);
  assert.equal(pathOf("file:///home/a%20b"), "/home/a b");
  assert.equal(pathOf("file:///%"), "file:///%");
  assert.equal(nameOf("file:///home/project/"), "project");
});

test("a word that is not known is shown as it is, also one that every object has", () => {
  assert.equal(meaning("StopReason", "end_turn"), "the model ended its turn");
  assert.equal(meaning("StopReason", "later"), "later");
  assert.equal(meaning("StopReason", "constructor"), "constructor");
});
