import assert from "node:assert/strict";
import { test } from "node:test";
import { joined } from "../../src/tail";

test("pieces are joined by their bytes, whatever overlaps", () => {
  const first = joined(undefined, 0, "né");
  assert.equal(first.end, 3);
  assert.equal(joined(first, 3, "w").text, "néw");
  assert.equal(joined(first, 1, "éw").text, "néw");
  assert.equal(joined(first, 0, "né"), first);
});

test("a piece beyond a gap replaces what is known", () => {
  const tail = joined(joined(undefined, 0, "old"), 10, "new");
  assert.deepEqual(tail, { offset: 10, text: "new", end: 13 });
});

test("a loud command stays bounded and ends in what came last", () => {
  let tail = joined(undefined, 0, "");
  for (let line = 0; line < 50_000; line += 1) tail = joined(tail, tail.end, `line ${line}\n`);
  assert.ok(tail.text.length <= 256 * 1024);
  assert.ok(tail.text.endsWith("line 49999\n"));
  assert.equal(tail.offset + Buffer.byteLength(tail.text), tail.end);
});
