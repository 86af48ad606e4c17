import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SseDecoder, type SseFrame } from "../src/sse.js";
import { growth, LINEAR } from "./cost.js";

const encode = (text: string) => new TextEncoder().encode(text);

function decode(...pieces: Uint8Array[]): SseFrame[] {
  const decoder = new SseDecoder();
  return pieces.flatMap((piece) => decoder.feed(piece));
}

function cut(bytes: Uint8Array, places: number[]): Uint8Array[] {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
}

const frame = (data: string, event = "message", id?: string): SseFrame => ({ event, id, data });

describe("the decoder", () => {
  test.each<[string, string, SseFrame[]]>([
    ["reads name, id and data", "event: a\nid: 1\ndata: x\n\n", [frame("x", "a", "1")]],
    ["joins lines of data", "data: a\ndata: b\n\n", [frame("a\nb")]],
    ["takes off one space and no more", "data:  a\ndata:b\n\n", [frame(" a\nb")]],
    ["takes data that is empty", "data\n\ndata:\n\n", [frame(""), frame("")]],
    ["drops an event without data", "event: a\nid: 1\n\ndata: x\n\n", [frame("x")]],
    ["passes over comments and unknown fields", ": hi\nfoo: bar\nretry: 3\ndata: x\n\n", [frame("x")]],
    ["forgets an event that is not finished", "data: x\n\ndata: y\n", [frame("x")]],
    ["keeps colons in values", "data: a:b: c\n\n", [frame("a:b: c")]],
    ["drops a byte order mark at the start only", "\ufeffdata: \ufeffx\n\n", [frame("\ufeffx")]],
    ["ends lines at CR", "data: x\r\rdata: y\r\r", [frame("x"), frame("y")]],
    ["ends lines at CRLF", "data: x\r\n\r\ndata: y\r\n\r\n", [frame("x"), frame("y")]],
    ["does not end lines at U+2028", "data: a\u2028b\u0085c\n\n", [frame("a\u2028b\u0085c")]],
    ["ignores an id with a null character", "id: a\0b\ndata: x\n\n", [frame("x")]],
  ])("%s", (_, text, frames) => {
    expect(decode(encode(text))).toEqual(frames);
  });

  test("gives an event as soon as its empty line began", () => {
    const decoder = new SseDecoder();
    expect(decoder.feed(encode("data: x\r\n\r"))).toEqual([frame("x")]);
    expect(decoder.feed(encode("\ndata: y\r\n\r\n"))).toEqual([frame("y")]);
  });

  const lines = fc.array(
    fc.oneof(
      fc.constantFrom("", "data", "data: ", "event: a", "id: 7", ": c", "data: ⟦é🍕⟧", "\ufeff"),
      fc.string({ unit: "binary", maxLength: 12 }).map((text) => `data: ${text}`),
    ),
    { maxLength: 30 },
  );
  const bodies = fc
    .tuple(lines, fc.array(fc.constantFrom("\n", "\r", "\r\n"), { minLength: 30, maxLength: 30 }))
    .map(([texts, ends]) => encode(texts.map((text, index) => text + ends[index]).join("")));

  test("gives the same frames for any cut", () => {
    fc.assert(
      fc.property(bodies, fc.array(fc.nat(), { maxLength: 12 }), (bytes, places) => {
        expect(decode(...cut(bytes, places))).toEqual(decode(bytes));
      }),
      { numRuns: 500 },
    );
  });

  test("gives the same frames one byte at a time", () => {
    fc.assert(
      fc.property(bodies, (bytes) => {
        expect(decode(...Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual(decode(bytes));
      }),
    );
  });

  test("takes ten times the time for ten times the input, cut small", () => {
    const work = (size: number) => {
      const bytes = encode(`data: ${"x".repeat(size)}\n\n`);
      const decoder = new SseDecoder();
      for (let at = 0; at < bytes.length; at += 16) decoder.feed(bytes.subarray(at, at + 16));
    };
    expect(growth(work, 200_000)).toBeLessThan(LINEAR);
  });
});
