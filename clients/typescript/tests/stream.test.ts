import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { StreamError, type StreamEvent, startStream } from "../src/index.js";
import { type Answerer, encodeEvent, PATIENT, RUN, type Seen, STREAM_HEADERS, TestServer } from "./replay.js";

const QUICK = { attempts: 3, baseMs: 5, maxMs: 20 };

type Wire = [event: string, data?: unknown];

const RESULT: Wire[] = [
  ["result.begin", { id: "R1", schema: "AssistantReply" }],
  ["result.delta", { id: "R1", chunk: '{"answer":"ok"}' }],
  ["result.end", { id: "R1", length: 15 }],
];
const HELLO: Wire[] = [["text.delta", { text: "hello" }], ...RESULT, ["done"]];

function send(response: ServerResponse, events: Wire[], from = 1): void {
  response.writeHead(200, STREAM_HEADERS);
  events.forEach(([event, data = {}], index) => {
    response.write(encodeEvent(event, data, from + index));
  });
}

/** Answers streams with `stream`, and everything else with 204. */
function serve(stream: (response: ServerResponse, request: Seen, connection: number) => unknown): Answerer {
  let connections = 0;
  return async (request, response) => {
    const isStream = request.method === "GET" || request.path === "/v1/stream";
    if (!isStream) response.writeHead(204).end();
    else await stream(response, request, connections++);
  };
}

const serveHello = serve((response) => {
  send(response, HELLO);
  response.end();
});

async function failure(promise: Promise<unknown>): Promise<StreamError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(StreamError);
  return error as StreamError;
}

describe("pause", () => {
  const COUNT = 4000;
  const EVENT_BYTES = 8192;

  /** Sends 32 MB as fast as the reader takes them, and tells how many events were written. */
  function flood(): { answer: Answerer; written: () => number; blocked: () => boolean } {
    let written = 0;
    let blocked = false;
    const text = "x".repeat(EVENT_BYTES);
    const answer = serve(async (response) => {
      response.writeHead(200, STREAM_HEADERS);
      for (; written < COUNT && !response.destroyed; written += 1) {
        if (response.write(encodeEvent("text.delta", { text }, written + 1))) continue;
        blocked = true;
        const settled = new AbortController();
        const { signal } = settled;
        const either = ["drain", "close"].map((name) => once(response, name, { signal }).catch(() => {}));
        await Promise.race(either);
        settled.abort();
        blocked = false;
      }
      RESULT.forEach(([event, data], index) => {
        response.write(encodeEvent(event, data, COUNT + 1 + index));
      });
      response.end(encodeEvent("done", {}, COUNT + RESULT.length + 1));
    });
    return { answer, written: () => written, blocked: () => blocked };
  }

  /** Wait until the server has stopped writing, and return how far it came. */
  async function standstill(written: () => number): Promise<number> {
    for (let before = -1; before !== written(); await sleep(250)) before = written();
    return written();
  }

  test("stops the server's writing, and resume brings every event once, in order", async () => {
    const source = flood();
    await using server = await TestServer.start(source.answer);
    const numbers: number[] = [];
    const handle = startStream({
      prompt: "x",
      url: server.url,
      onEvent: ({ n }) => {
        numbers.push(n);
        if (n === 10) handle.pause();
      },
    });
    await vi.waitFor(() => expect(handle.paused).toBe(true), PATIENT);
    const reached = await standstill(source.written);
    expect(source.blocked()).toBe(true);
    expect(reached).toBeLessThan(COUNT);
    expect(numbers).toHaveLength(10);
    expect(server.seen).toHaveLength(1);
    handle.resume();
    await handle.done;
    expect(numbers).toEqual(Array.from({ length: COUNT + 4 }, (_, index) => index + 1));
    expect(server.seen).toHaveLength(1);
  });

  test.each(["a callback that is slow", "a loop that is slow", "nobody who reads"])(
    "is not needed: %s holds the server back",
    async (reader) => {
      const source = flood();
      await using server = await TestServer.start(source.answer);
      const go = new AbortController();
      const blocked = once(go.signal, "abort");
      const handle = startStream({
        prompt: "x",
        url: server.url,
        ...(reader.startsWith("a callback") && { onText: () => blocked as unknown as undefined }),
      });
      const loop = async () => {
        for await (const event of handle) if (event.n === 1) await blocked;
      };
      const looping = reader.startsWith("a loop") ? loop() : undefined;
      expect(await standstill(source.written)).toBeLessThan(COUNT);
      expect(source.blocked()).toBe(true);
      go.abort();
      expect((await handle.done).text).toHaveLength(COUNT * EVENT_BYTES);
      await looping;
    },
  );

  test("reads nothing from the body", async () => {
    let pulled = 0;
    const body = () =>
      new ReadableStream<Uint8Array>(
        {
          pull(controller) {
            const [event, data = {}] = HELLO[pulled++] as Wire;
            controller.enqueue(encodeEvent(event, data, pulled));
          },
        },
        { highWaterMark: 0 },
      );
    const fetch = async () => new Response(body(), { headers: STREAM_HEADERS });
    const handle = startStream({ prompt: "x", url: "http://127.0.0.1", fetch });
    const done = handle.done;
    handle.pause();
    await handle.runId;
    await sleep(30);
    expect(pulled).toBe(0);
    handle.resume();
    await done;
    expect(pulled).toBe(HELLO.length);
  });

  test("holds a loop too", async () => {
    await using server = await TestServer.start(serveHello);
    const handle = startStream({ prompt: "x", url: server.url });
    handle.pause();
    const next = handle[Symbol.asyncIterator]().next();
    const first = await Promise.race([next, sleep(100, "nothing")]);
    expect(first).toBe("nothing");
    handle.resume();
    expect(await next).toMatchObject({ value: { type: "text.delta" } });
    await handle.close();
  });
});

describe("the connection", () => {
  test("is taken up after a gap in the numbers", async () => {
    const told: Wire[] = [["text.delta", { text: "a" }], ["text.delta", { text: "b" }], ...HELLO];
    await using server = await TestServer.start(
      serve((response, _, connection) => {
        if (connection > 0) send(response, told.slice(1), 2);
        else {
          send(response, told.slice(0, 1));
          response.write(encodeEvent("text.delta", { text: "hello" }, 3));
        }
      }),
    );
    const handle = startStream({ prompt: "x", url: server.url, reconnect: QUICK });
    expect((await handle.done).text).toBe("abhello");
    expect(server.by("GET")).toMatchObject([{ headers: { "last-event-id": `${RUN}:1` } }]);
  });

  test("may repeat events without their being told twice", async () => {
    await using server = await TestServer.start(
      serve((response, _, connection) => {
        send(response, connection === 0 ? HELLO.slice(0, 3) : HELLO);
        response.end();
      }),
    );
    const numbers: number[] = [];
    const handle = startStream({
      prompt: "x",
      url: server.url,
      reconnect: QUICK,
      onEvent: ({ n }) => numbers.push(n),
    });
    await handle.done;
    expect(numbers).toEqual([1, 2, 3, 4, 5]);
  });

  test("counts as lost when it is silent, and pings are life", async () => {
    await using server = await TestServer.start(
      serve(async (response, _, connection) => {
        send(response, HELLO.slice(connection, 1), 1);
        if (connection > 0)
          return response.end(
            Buffer.concat(HELLO.slice(1).map(([e, d = {}], i) => encodeEvent(e, d, i + 2))),
          );
        for (let ping = 0; ping < 8; ping += 1) {
          await sleep(100);
          response.write(encodeEvent("ping", {}));
        }
        return undefined;
      }),
    );
    const start = performance.now();
    const handle = startStream({ prompt: "x", url: server.url, reconnect: QUICK, idleTimeoutMs: 500 });
    await handle.done;
    expect(performance.now() - start).toBeGreaterThan(1200);
    expect(server.by("GET")).toHaveLength(1);
  });

  test("is given up after the attempts that were allowed, which bring nothing new", async () => {
    await using server = await TestServer.start(
      serve((response, _, connection) => {
        if (connection === 0) send(response, HELLO.slice(0, 1));
        response.destroy();
      }),
    );
    const error = await failure(startStream({ prompt: "x", url: server.url, reconnect: QUICK }).done);
    expect(error.code).toBe("connection_lost");
    expect(server.seen).toHaveLength(1 + QUICK.attempts);
  });

  test("may break any number of times as long as each brings something new", async () => {
    await using server = await TestServer.start(
      serve((response, _, connection) => {
        send(response, HELLO.slice(connection, connection + 1), connection + 1);
        response.end();
      }),
    );
    const handle = startStream({ prompt: "x", url: server.url, reconnect: { ...QUICK, attempts: 1 } });
    expect((await handle.done).text).toBe("hello");
    expect(server.seen).toHaveLength(HELLO.length);
  });

  test.each([
    [503, "connection returns"],
    [404, "run is unknown"],
  ])("answered with %i when it is taken up: %s", async (status) => {
    await using server = await TestServer.start(
      serve((response, _, connection) => {
        if (connection === 1) return response.writeHead(status).end();
        send(response, connection === 0 ? HELLO.slice(0, 1) : HELLO.slice(1), connection === 0 ? 1 : 2);
        return response.end();
      }),
    );
    const { done } = startStream({ prompt: "x", url: server.url, reconnect: QUICK });
    if (status === 503) expect((await done).text).toBe("hello");
    else expect(await failure(done)).toMatchObject({ status: 404, outcome: { text: "hello" } });
  });

  test("that never was is asked for again under the same key, once the server is there", async () => {
    let refused = 2;
    await using server = await TestServer.start(serveHello);
    const keys: (string | null)[] = [];
    const flaky: typeof fetch = async (input, init) => {
      keys.push(new Headers(init?.headers).get("idempotency-key"));
      if (refused-- > 0) throw new TypeError("fetch failed");
      return fetch(input, init);
    };
    await startStream({ prompt: "x", url: server.url, fetch: flaky, reconnect: QUICK }).done;
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  });

  test("is asked for once without a key, because a second time might run twice", async () => {
    const absent = vi.fn(async () => {
      throw new TypeError("fetch failed");
    });
    const options = { prompt: "x", url: "http://127.0.0.1", fetch: absent, reconnect: QUICK };
    const error = await failure(startStream({ ...options, idempotencyKey: false }).done);
    expect(error).toMatchObject({ code: "connection_lost", cause: expect.any(TypeError) });
    expect(absent).toHaveBeenCalledTimes(1);
  });

  test("carries the key, the caller's headers and the caller's idempotency key", async () => {
    await using server = await TestServer.start(serveHello);
    const headers = { "x-team": "blue" };
    await startStream({
      prompt: "x",
      url: `${server.url}/v1/stream/`,
      apiKey: "k",
      headers,
      idempotencyKey: "once",
    }).done;
    expect(server.seen[0]).toMatchObject({
      path: "/v1/stream",
      headers: {
        authorization: "Bearer k",
        "x-team": "blue",
        "idempotency-key": "once",
        accept: "text/event-stream",
      },
    });
  });
});

describe("the end", () => {
  const endless = serve((response) => send(response, HELLO.slice(0, 1)));

  test("by close leaves the run alone", async () => {
    await using server = await TestServer.start(endless);
    const closed = new Promise((resolve) =>
      server.http.on("connection", (socket) => socket.on("close", resolve)),
    );
    const handle = startStream({ prompt: "x", url: server.url });
    expect(await handle.runId).toBe(RUN);
    await handle.close();
    await closed;
    expect(await failure(handle.done)).toMatchObject({ code: "closed" });
    await sleep(30);
    expect(server.by("DELETE")).toHaveLength(0);
  });

  test("by leaving the loop, or the scope, is a close", async () => {
    await using server = await TestServer.start(endless);
    const handle = startStream({ prompt: "x", url: server.url });
    for await (const event of handle) {
      expect(event.type).toBe("text.delta");
      break;
    }
    expect(await failure(handle.done)).toMatchObject({ code: "closed", outcome: { text: "hello" } });
    let scoped: Promise<unknown>;
    {
      await using stream = startStream({ prompt: "x", url: server.url });
      scoped = stream.done;
    }
    expect((await failure(scoped)).code).toBe("closed");
    expect(server.by("DELETE")).toHaveLength(0);
  });

  test("by abort deletes the run and waits for the server's last words", async () => {
    let stream: ServerResponse | undefined;
    await using server = await TestServer.start((request, response) => {
      if (request.method === "DELETE") {
        response.writeHead(204).end();
        stream?.write(encodeEvent("error", { code: "aborted", message: "by the caller" }, 2));
        stream?.end(encodeEvent("done", {}, 3));
      } else {
        stream = response;
        send(response, HELLO.slice(0, 1));
      }
    });
    const handle = startStream({ prompt: "x", url: server.url, apiKey: "k" });
    await handle.runId;
    handle.pause();
    await handle.abort();
    const error = await failure(handle.done);
    expect(error).toMatchObject({
      code: "aborted",
      message: "by the caller",
      outcome: { text: "hello", errors: [] },
    });
    expect(server.by("DELETE")).toMatchObject([
      { path: `/v1/stream/${RUN}`, headers: { authorization: "Bearer k" } },
    ]);
  });

  test("by the caller's signal is an abort", async () => {
    await using server = await TestServer.start(endless);
    const control = new AbortController();
    const handle = startStream({ prompt: "x", url: server.url, signal: control.signal });
    await handle.runId;
    control.abort();
    await vi.waitFor(() => expect(server.by("DELETE")).toHaveLength(1), PATIENT);
    await handle.close();
  });

  test("by a signal that has fired asks for nothing", async () => {
    await using server = await TestServer.start(endless);
    const handle = startStream({ prompt: "x", url: server.url, signal: AbortSignal.abort() });
    expect((await failure(handle.done)).code).toBe("aborted");
    await failure(handle.runId);
    expect(server.seen).toHaveLength(0);
  });

  test("of an abort that the server refuses is known to the caller", async () => {
    await using server = await TestServer.start((request, response) => {
      if (request.method === "DELETE") response.writeHead(500).end();
      else send(response, HELLO.slice(0, 1));
    });
    const handle = startStream({ prompt: "x", url: server.url });
    await handle.runId;
    expect(await failure(handle.abort())).toMatchObject({ status: 500 });
    expect((await failure(handle.done)).code).toBe("aborted");
  });

  test("of the time for the request ends the run there and here", async () => {
    await using server = await TestServer.start(endless);
    const start = performance.now();
    const handle = startStream({ prompt: "x", url: server.url, requestTimeoutMs: 1500 });
    expect(await failure(handle.done)).toMatchObject({ code: "request_timeout", outcome: { text: "hello" } });
    expect(performance.now() - start).toBeLessThan(5000);
    expect(server.seen[0]?.body).toMatchObject({ request_timeout_ms: 1500 });
    await vi.waitFor(() => expect(server.by("DELETE")).toHaveLength(1), PATIENT);
  });

  test("of the time comes also when the server never answers", async () => {
    await using server = await TestServer.start(() => {});
    const handle = startStream({ prompt: "x", url: server.url, requestTimeoutMs: 80 });
    expect((await failure(handle.done)).code).toBe("request_timeout");
  });

  test("does not come by a time that timers cannot express", async () => {
    await using server = await TestServer.start(serveHello);
    const forever = { requestTimeoutMs: 2 ** 40, idleTimeoutMs: Number.POSITIVE_INFINITY };
    expect((await startStream({ prompt: "x", url: server.url, ...forever }).done).text).toBe("hello");
  });

  test.each<[string, Wire[], string]>([
    [
      "a length that is wrong",
      [
        ["result.begin", { id: "R", schema: "S" }],
        ["result.end", { id: "R", length: 3 }],
      ],
      "3 bytes",
    ],
    ["a frame that never began", [["json.delta", { id: "O", chunk: "{}" }]], "has not begun"],
    [
      "text that is no JSON",
      [
        ["json.begin", { id: "O", schema: "S" }],
        ["json.delta", { id: "O", chunk: "{" }],
        ["json.end", { id: "O", length: 1 }],
      ],
      "no JSON",
    ],
    ["a field that is missing", [["text.delta", {}]], '"text"'],
    ["data that is no object", [["text.delta", 7]], "no object"],
  ])("with %s is a broken stream", async (_, events, message) => {
    await using server = await TestServer.start(
      serve((response) => {
        send(response, events);
        response.end();
      }),
    );
    const error = await failure(startStream({ prompt: "x", url: server.url, reconnect: QUICK }).done);
    expect(error.code).toBe("broken_stream");
    expect(error.message).toContain(message);
  });

  test.each([
    ["data that is no JSON", `event: text.delta\nid: ${RUN}:2\ndata: {"text\n\n`, "no JSON"],
    ["an event without a number", 'event: text.delta\ndata: {"text":"b"}\n\n', "no number"],
    ["an event of another run", 'event: text.delta\nid: run_1:2\ndata: {"text":"b"}\n\n', "run_1"],
  ])("with %s is a broken stream, after what came before it", async (_, wire, message) => {
    await using server = await TestServer.start(
      serve((response, _, connection) => {
        send(response, connection === 0 ? HELLO.slice(0, 1) : []);
        response.end(wire);
      }),
    );
    const error = await failure(startStream({ prompt: "x", url: server.url, reconnect: QUICK }).done);
    expect(error).toMatchObject({ code: "broken_stream", outcome: { text: "hello" } });
    expect(error.message).toContain(message);
    expect(server.by("GET")).toHaveLength(QUICK.attempts);
  });

  test("without a result and without an error is a failure", async () => {
    await using server = await TestServer.start(
      serve((response) => {
        send(response, [["text.delta", { text: "hm" }], ["done"]]);
        response.end();
      }),
    );
    expect((await failure(startStream({ prompt: "x", url: server.url }).done)).code).toBe("no_result");
  });
});

describe("callbacks", () => {
  const pieces: Wire[] = [
    ["text.delta", { text: "a" }],
    ["json.begin", { id: "O1", schema: "Action" }],
    ["json.delta", { id: "O1", chunk: '{"mode":"se' }],
    ["json.delta", { id: "O1", chunk: 'arch","n":1}' }],
    ["json.end", { id: "O1", length: 23 }],
    ["error", { code: "duplicate_id", message: "again", id: "O1" }],
    ...RESULT,
    ["done"],
  ];
  const servePieces = serve((response) => {
    send(response, pieces);
    response.end();
  });

  test("get pieces of objects and results, and the value with the last", async () => {
    await using server = await TestServer.start(servePieces);
    const told: unknown[] = [];
    const handle = startStream({
      prompt: "x",
      url: server.url,
      onText: (text) => told.push(text),
      onJSON: (piece) => told.push(piece, handle.partial(piece.id)),
      onResult: (piece) => told.push(piece),
      onError: ({ code }) => told.push(code),
    });
    await handle.done;
    expect(told).toEqual([
      "a",
      { id: "O1", schema: "Action" },
      undefined,
      { id: "O1", delta: '{"mode":"se' },
      { mode: "se" },
      { id: "O1", delta: 'arch","n":1}' },
      { mode: "search", n: 1 },
      { id: "O1", end: true, schema: "Action", value: { mode: "search", n: 1 } },
      { mode: "search", n: 1 },
      "duplicate_id",
      { id: "R1", schema: "AssistantReply" },
      { id: "R1", delta: '{"answer":"ok"}' },
      { id: "R1", end: true, schema: "AssistantReply", value: { answer: "ok" } },
    ]);
    expect(handle.lastEventId).toBe(`${RUN}:10`);
  });

  test("that throw end the stream with what they threw", async () => {
    await using server = await TestServer.start(servePieces);
    const cause = new Error("mine");
    const handle = startStream({
      prompt: "x",
      url: server.url,
      onJSON: () => {
        throw cause;
      },
    });
    expect(await failure(handle.done)).toMatchObject({ code: "callback_failed", cause });
    expect(server.seen).toHaveLength(1);
  });

  test("are told of the error that ends the stream", async () => {
    await using server = await TestServer.start((_, response) => {
      response.writeHead(401, { "content-type": "application/json" });
      response.end('{"error":{"code":"not_allowed","message":"no key"}}');
    });
    const errors: StreamError[] = [];
    startStream({ prompt: "x", url: server.url, onError: (error) => errors.push(error) });
    await vi.waitFor(() => expect(errors).toMatchObject([{ code: "not_allowed", status: 401 }]), PATIENT);
  });

  test("are told once of an error event that ends the stream", async () => {
    const last: Wire[] = [["error", { code: "upstream_error", message: "reset" }], ["done"]];
    await using server = await TestServer.start(serve((response) => send(response, last)));
    const onError = vi.fn();
    await failure(startStream({ prompt: "x", url: server.url, onError }).done);
    expect(onError.mock.calls).toMatchObject([[{ code: "upstream_error" }]]);
  });

  test.each([
    ["nobody", 1],
    ["onError", 0],
    ["a loop", 0],
  ])("are not needed: a failure that reaches %s is left unhandled %i times", async (listener, times) => {
    const unhandled = vi.fn();
    const listeners = process.rawListeners("unhandledRejection") as (() => void)[];
    process.removeAllListeners("unhandledRejection").on("unhandledRejection", unhandled);
    try {
      await using server = await TestServer.start((_, response) => void response.writeHead(401).end());
      const options = { prompt: "x", url: server.url, ...(listener === "onError" && { onError: () => {} }) };
      const handle = startStream(options);
      const looping = async () => {
        for await (const _ of handle);
      };
      if (listener === "a loop") await failure(looping());
      await failure(handle.runId);
      await sleep(50);
      expect(unhandled).toHaveBeenCalledTimes(times);
    } finally {
      process.removeAllListeners("unhandledRejection");
      for (const restored of listeners) process.on("unhandledRejection", restored);
    }
  });

  test("and a loop can be had together", async () => {
    await using server = await TestServer.start(servePieces);
    const called: StreamEvent[] = [];
    const looped: StreamEvent[] = [];
    const handle = startStream({ prompt: "x", url: server.url, onEvent: (event) => called.push(event) });
    const { done } = handle;
    for await (const event of handle) looped.push(event);
    expect(looped).toEqual(called);
    expect(looped).toHaveLength(pieces.length);
    await done;
  });
});

describe("tools", () => {
  const call = (client: boolean): Wire => [
    "tool.call",
    { id: "T1", name: "light.set", args: { on: true }, ...(client && { client }) },
  ];
  const result: Wire = ["tool.result", { id: "T1", name: "light.set", result: 1 }];

  /** Goes on when the call was answered with a 2xx. */
  function serveCall(statuses: number[] = [204]): Answerer {
    let stream: ServerResponse | undefined;
    return (request, response) => {
      if (request.path === "/v1/stream") {
        stream = response;
        return send(response, [call(true)]);
      }
      const status = statuses.shift() ?? 204;
      response.writeHead(status).end();
      if (status >= 300 && status !== 409) return undefined;
      [result, ...RESULT, ["done"] as Wire].forEach(([event, data = {}], index) => {
        stream?.write(encodeEvent(event, data, index + 2));
      });
      return undefined;
    };
  }

  test("with a function are declared as the client's and run here", async () => {
    await using server = await TestServer.start(serveCall());
    const run = vi.fn(async ({ on }: { on: boolean }) => ({ was: on }));
    const tool = { name: "light.set", description: "Light.", parameters: { type: "object" }, run };
    await startStream({ prompt: "x", url: server.url, tools: [tool] }).done;
    expect(server.seen[0]?.body).toEqual({
      prompt: "x",
      tools: [{ name: "light.set", description: "Light.", parameters: { type: "object" }, client: true }],
    });
    expect(run.mock.calls[0]).toMatchObject([
      { on: true },
      { id: "T1", name: "light.set", runId: RUN, client: true },
    ]);
    expect(server.seen[1]).toMatchObject({
      path: `/v1/stream/${RUN}/results`,
      body: { id: "T1", result: { was: true } },
    });
  });

  test.each<[string, () => unknown, object]>([
    ["a value that is no JSON", () => 10n, { error: expect.stringContaining("BigInt") }],
    ["a function", () => () => 1, { error: expect.stringContaining("function") }],
    ["nothing", () => undefined, { result: null }],
  ])("that return %s answer all the same", async (_, run, answer) => {
    await using server = await TestServer.start(serveCall());
    await startStream({ prompt: "x", url: server.url, tools: [{ name: "light.set", run }] }).done;
    expect(server.seen[1]?.body).toEqual({ id: "T1", ...answer });
  });

  test("that nobody runs answer with an error", async () => {
    await using server = await TestServer.start(serveCall());
    await startStream({ prompt: "x", url: server.url, tools: ["light.set"] }).done;
    expect(server.seen[1]?.body).toEqual({ id: "T1", error: "the client has no tool light.set" });
  });

  test("have their answers posted again when the server stumbles", async () => {
    await using server = await TestServer.start(serveCall([503, 503, 204]));
    const onError = vi.fn();
    await startStream({
      prompt: "x",
      url: server.url,
      tools: ["light.set"],
      onToolCall: async () => 1,
      onError,
      reconnect: QUICK,
    }).done;
    expect(server.seen).toHaveLength(4);
    expect(onError).not.toHaveBeenCalled();
  });

  test("whose answer is refused are reported, and the stream goes on", async () => {
    await using server = await TestServer.start(serveCall([409]));
    const onError = vi.fn();
    await startStream({ prompt: "x", url: server.url, onToolCall: async () => 1, onError }).done;
    expect(server.seen).toHaveLength(2);
    expect(onError.mock.calls).toMatchObject([[{ status: 409 }]]);
  });

  test("get a signal that fires when their time is up", async () => {
    await using server = await TestServer.start(serveCall());
    const fired = vi.fn();
    const onToolCall = async ({ signal }: { signal?: AbortSignal }) => {
      signal?.addEventListener("abort", fired);
      await sleep(6000, undefined, { ref: false });
    };
    const start = performance.now();
    await startStream({ prompt: "x", url: server.url, toolTimeoutMs: 50, onToolCall }).done;
    expect(performance.now() - start).toBeLessThan(5000);
    expect(fired).toHaveBeenCalledOnce();
    expect(server.seen[1]?.body).toEqual({ id: "T1", error: "no answer after 50 ms" });
  });

  test("are stopped when the server has a result without them", async () => {
    await using server = await TestServer.start(serve((response) => send(response, [call(true), result])));
    const fired = vi.fn();
    const onToolCall = ({ signal }: { signal?: AbortSignal }) => {
      signal?.addEventListener("abort", fired);
      return sleep(100);
    };
    const handle = startStream({ prompt: "x", url: server.url, onToolCall });
    await vi.waitFor(() => expect(fired).toHaveBeenCalledOnce(), PATIENT);
    await sleep(150);
    expect(server.seen).toHaveLength(1);
    await handle.close();
  });

  test("do not hold the reading back, and are stopped at its end", async () => {
    await using server = await TestServer.start(
      serve((response) => {
        send(response, [call(true), ...HELLO]);
        response.end();
      }),
    );
    const fired = vi.fn();
    const onToolCall = ({ signal }: { signal?: AbortSignal }) => {
      signal?.addEventListener("abort", fired);
      return new Promise(() => {});
    };
    expect((await startStream({ prompt: "x", url: server.url, onToolCall }).done).text).toBe("hello");
    expect(fired).toHaveBeenCalledOnce();
    expect(server.seen).toHaveLength(1);
  });

  test("of the server are told, and nothing is posted, even if the callback throws", async () => {
    await using server = await TestServer.start(
      serve((response) => {
        send(response, [call(false), result, ...HELLO]);
        response.end();
      }),
    );
    const told = vi.fn(async () => {
      throw new Error("not my tool");
    });
    const onError = vi.fn();
    await startStream({ prompt: "x", url: server.url, tools: ["light.set"], onToolCall: told, onError }).done;
    expect(told.mock.calls).toMatchObject([
      [{ id: "T1", name: "light.set", args: { on: true }, client: false }],
    ]);
    expect(onError).not.toHaveBeenCalled();
    expect(server.seen).toHaveLength(1);
  });
});
