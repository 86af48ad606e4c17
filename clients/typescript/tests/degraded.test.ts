import { describe, expect, test } from "vitest";
import { StreamError, startStream } from "../src/index.js";
import { encodeEvent, STREAM_HEADERS, TestServer } from "./replay.js";

const VALUE = { city: "Bern", degrees: 0 };
const USAGE = { input_tokens: 40, output_tokens: 9, calls: 2, cost: { total: 0.01 } };
const EVENTS: [string, unknown][] = [
  ["json.begin", { id: "O1", schema: "Weather" }],
  ["json.end", { id: "O1", length: 0, status: "degraded", value: VALUE, invented: ["degrees"] }],
  ["result.begin", { id: "R1", schema: "Weather" }],
  ["result.end", { id: "R1", length: 0, status: "degraded", value: VALUE, invented: ["degrees"] }],
  ["done", { usage: USAGE }],
];

function serve(): Promise<TestServer> {
  return TestServer.start((_, response) => {
    response.writeHead(200, STREAM_HEADERS);
    EVENTS.forEach(([event, data], index) => {
      response.write(encodeEvent(event, data, index + 1));
    });
    response.end();
  });
}

describe("a degraded result", () => {
  test("rejects, and names what was invented", async () => {
    await using server = await serve();
    const error = await startStream({ url: server.url, prompt: "x" }).done.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(StreamError);
    const { code, message, invented, outcome } = error as StreamError;
    expect({ code, invented }).toEqual({ code: "degraded", invented: ["degrees"] });
    expect(message).toContain('onDegraded: "accept"');
    expect(outcome).toMatchObject({ result: VALUE, resultStatus: "degraded", usage: USAGE });
  });

  test("is the result of a caller who accepts it", async () => {
    await using server = await serve();
    const pieces: unknown[] = [];
    const outcome = await startStream({
      url: server.url,
      prompt: "x",
      onDegraded: "accept",
      onResult: (piece) => pieces.push(piece),
    }).done;
    expect(outcome).toMatchObject({ result: VALUE, resultStatus: "degraded", resultInvented: ["degrees"] });
    expect(outcome.objects).toEqual([
      { id: "O1", schema: "Weather", value: VALUE, status: "degraded", invented: ["degrees"] },
    ]);
    expect(outcome.usage).toEqual(USAGE);
    expect(pieces.at(-1)).toMatchObject({ end: true, invented: ["degrees"] });
  });
});
