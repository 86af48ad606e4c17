import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PartialJson } from "../src/partial.js";
import { growth, LINEAR } from "./cost.js";

function read(...chunks: string[]): PartialJson {
  const reader = new PartialJson();
  for (const chunk of chunks) reader.feed(chunk);
  return reader;
}

/** Whether `part` can become `whole` by more text: nothing that is shown is taken back. */
function growsInto(part: unknown, whole: unknown): boolean {
  if (part === undefined) return true;
  if (typeof part === "string") return typeof whole === "string" && whole.startsWith(part);
  if (typeof part !== "object" || part === null) return Object.is(part, whole);
  if (typeof whole !== "object" || whole === null || Array.isArray(part) !== Array.isArray(whole))
    return false;
  const values = whole as Record<string, unknown>;
  return Object.entries(part).every(
    ([key, value]) => Object.hasOwn(values, key) && growsInto(value, values[key]),
  );
}

describe("partial JSON", () => {
  test.each<[string, unknown]>([
    ["", undefined],
    ["{", {}],
    ['{"a', {}],
    ['{"a"', {}],
    ['{"a":', {}],
    ['{"a":"', { a: "" }],
    ['{"a":"b\\', { a: "b" }],
    ['{"a":"b\\u00e', { a: "b" }],
    ['{"a":"b\\u00e9', { a: "bé" }],
    ['{"a":"b"', { a: "b" }],
    ['{"a":12', {}],
    ['{"a":12,', { a: 12 }],
    ['{"a":tru', {}],
    ['{"a":true}', { a: true }],
    ['{"a":[1,[2,"x', { a: [1, [2, "x"]] }],
    ['[{"a":null},{"b":[', [{ a: null }, { b: [] }]],
    ['"top', "top"],
    [" 12 ", 12],
  ])("%j shows %j", (text, value) => {
    expect(read(text).snapshot()).toEqual(value);
  });

  test.each([
    "{]",
    "[}",
    "[1,]",
    "{,}",
    '{"a" 1}',
    "[1 2]",
    "{}x",
    "tree ",
    "[01]",
    '"\\x"',
    '"\\u00g0"',
    '"\n"',
    "'a'",
    "[1,,2]",
    "]",
    '{"a":}',
  ])("%j is broken", (text) => {
    expect(read(text).broken).toBe(true);
  });

  test("keeps what it had before a fault", () => {
    expect(read('{"a":[1,2],"b":"x"', " oops", ',"c":1}').snapshot()).toEqual({ a: [1, 2], b: "x" });
  });

  test("makes a property of __proto__, not a prototype", () => {
    const value = read('{"__proto__":{"a":1},"b":{"__proto__":"x').snapshot() as Record<string, unknown>;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.keys(value)).toEqual(["__proto__", "b"]);
    expect(Object.keys(value["b"] as object)).toEqual(["__proto__"]);
  });

  test("snapshots do not change when more text comes", () => {
    const reader = read('{"a":[1,{"b":"x');
    const before = reader.snapshot();
    reader.feed('y"},2],"c":3}');
    expect(before).toEqual({ a: [1, { b: "x" }] });
    expect(reader.snapshot()).toEqual({ a: [1, { b: "xy" }, 2], c: 3 });
  });

  test("agrees with the strict reader at the end, for any cut, and only grows until then", () => {
    const texts = fc
      .tuple(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(undefined, 1, "\t"))
      .map(([value, indent]) => JSON.stringify(value, null, indent));
    fc.assert(
      fc.property(texts, fc.array(fc.nat(), { maxLength: 8 }), (text, places) => {
        const whole: unknown = JSON.parse(text);
        const reader = new PartialJson();
        const at = [...places.map((place) => place % (text.length + 1)).sort((a, b) => a - b), text.length];
        let from = 0;
        for (const to of at) {
          reader.feed(text.slice(from, to));
          from = to;
          expect(reader.broken).toBe(false);
          expect(growsInto(reader.snapshot(), whole)).toBe(true);
        }
        reader.close();
        expect(reader.finished).toBe(true);
        expect(reader.snapshot()).toEqual(whole);
      }),
      { numRuns: 500 },
    );
  });

  test("finds broken what the strict reader refuses, and nothing else", () => {
    const parts = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      '"',
      "\\",
      "1",
      "-",
      ".",
      "e",
      "true",
      "null",
      " ",
      "a",
      '"k"',
      "\\u12",
    );
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 10 }), (pieces) => {
        const reader = read(...pieces);
        reader.close();
        expect(reader.finished).toBe(isJson(pieces.join("")));
      }),
      { numRuns: 3000 },
    );
  });

  test("takes ten times the time for ten times the input, cut small", () => {
    const work = (size: number) => {
      const text = JSON.stringify({
        list: Array.from({ length: size }, (_, index) => ({ index, name: "né" })),
      });
      const reader = new PartialJson();
      for (let at = 0; at < text.length; at += 7) reader.feed(text.slice(at, at + 7));
    };
    expect(growth(work, 3000)).toBeLessThan(LINEAR);
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
