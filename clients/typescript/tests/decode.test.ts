import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { countUtf8, readPosition } from "../src/decode.js";

test("bytes are counted as they are encoded", () => {
  const encoder = new TextEncoder();
  const texts = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.string({ unit: "grapheme" }),
    fc.constant("\ud800x\udc00"),
  );
  fc.assert(fc.property(texts, (text) => countUtf8(text) === encoder.encode(text).length));
});

describe("a position", () => {
  test.each([
    ["run_00000000000000ab:17", { runId: "run_00000000000000ab", n: 17 }],
    ["run_1:0", undefined],
    ["run_1:01", undefined],
    ["run_1:-1", undefined],
    ["run_1", undefined],
    [":1", undefined],
    ["", undefined],
    ["run_1:9999999999999999", undefined],
  ])("%j is %j", (id, position) => {
    expect(readPosition(id)).toEqual(position);
  });
});
