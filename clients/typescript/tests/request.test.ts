import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { StreamError, startStream } from "../src/index.js";
import { below, streamUrl } from "../src/request.js";

describe("the address", () => {
  test.each([
    ["http://127.0.0.1:3456", "http://127.0.0.1:3456/v1/stream"],
    ["http://127.0.0.1:3456/", "http://127.0.0.1:3456/v1/stream"],
    ["https://example.test/bridge", "https://example.test/bridge/v1/stream"],
    ["https://example.test/v1/stream", "https://example.test/v1/stream"],
    ["https://example.test/v1/stream/?key=a#b", "https://example.test/v1/stream?key=a"],
  ])("of %s is %s", (url, address) => {
    expect(streamUrl(url).href).toBe(address);
    expect(streamUrl(new URL(url)).href).toBe(address);
  });

  test("of a run stays below that of the streams, whatever the run is called", () => {
    expect(below(streamUrl("http://a.test?key=k"), "run/../x", "results").href).toBe(
      "http://a.test/v1/stream/run%2F..%2Fx/results?key=k",
    );
  });
});

describe("a request", () => {
  const wrong = (options: object) => {
    try {
      startStream({ url: "http://127.0.0.1", ...options } as Parameters<typeof startStream>[0]);
    } catch (error) {
      return error as StreamError;
    }
    return undefined;
  };

  test.each([
    [{}, "prompt"],
    [{ prompt: "a", messages: [] }, "prompt"],
    [{ prompt: "a", tools: ["x", { name: "t", client: true }] }, "tools[1]"],
  ])("%j is refused before it is sent", (options, where) => {
    expect(wrong(options)).toBeInstanceOf(StreamError);
    expect(wrong(options)).toMatchObject({ code: "malformed_request", where });
  });
});

test("the source uses nothing that only Node has, and imports nothing but itself", () => {
  const folder = new URL("../src/", import.meta.url);
  const files = readdirSync(folder);
  expect(files.length).toBeGreaterThan(10);
  for (const file of files) {
    const source = readFileSync(new URL(file, folder), "utf8");
    const imports = Array.from(source.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g), (match) => match[1]);
    expect(
      imports.filter((name) => !/^\.\/\w+\.js$/.test(name ?? "")),
      file,
    ).toEqual([]);
    expect(source, file).not.toMatch(/\b(?:process|Buffer|require|__dirname|setImmediate)\b/);
  }
});
