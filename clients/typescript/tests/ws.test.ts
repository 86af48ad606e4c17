import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { startStream, type WebSocketConstructor } from "../src/index.js";
import { check, play, readOptions } from "./play.js";
import { loadTranscripts, PATIENT, type Piece, RUN, TestServer } from "./replay.js";

type Message = Record<string, unknown>;

const Socket: WebSocketConstructor = WebSocket;
const QUICK = { attempts: 3, baseMs: 5, maxMs: 20 };

/** A server with sockets; `talk` gets each, its number, and the messages of the client as they come. */
class SocketServer implements AsyncDisposable {
  readonly messages: Message[][] = [];
  readonly paths: string[] = [];
  readonly http: TestServer;
  readonly #sockets = new WebSocketServer({ noServer: true });

  private constructor(
    http: TestServer,
    talk: (socket: WebSocket, message: Message, connection: number) => void,
  ) {
    this.http = http;
    http.http.on("upgrade", (request, stream, head) => {
      this.paths.push(request.url ?? "");
      this.#sockets.handleUpgrade(request, stream, head, (socket) => {
        const connection = this.messages.push([]) - 1;
        socket.on("message", (data) => {
          const message = JSON.parse(String(data)) as Message;
          this.messages[connection]?.push(message);
          talk(socket, message, connection);
        });
      });
    });
  }

  static async start(
    talk: (socket: WebSocket, message: Message, connection: number) => void,
  ): Promise<SocketServer> {
    const http = await TestServer.start((_, response) => void response.writeHead(204).end());
    return new SocketServer(http, talk);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets.clients) socket.terminate();
    await this.http[Symbol.asyncDispose]();
  }
}

function say(socket: WebSocket, n: number, event: string, data: unknown = {}): void {
  socket.send(JSON.stringify({ event, id: `${RUN}:${n}`, data }));
}

function sayResult(socket: WebSocket, from: number): void {
  say(socket, from, "result.begin", { id: "R1", schema: "AssistantReply" });
  say(socket, from + 1, "result.delta", { id: "R1", chunk: '{"answer":"ok"}' });
  say(socket, from + 2, "result.end", { id: "R1", length: 15 });
  say(socket, from + 3, "done");
}

/** Say the pieces of a transcript, waiting where they wait. */
async function tell(socket: WebSocket, pieces: Piece[], answers: { id: string }[]): Promise<void> {
  let n = 0;
  for (const piece of pieces.filter((candidate) => "event" in candidate)) {
    await sleep(piece.after_ms ?? 0);
    const answered = () => answers.some(({ id }) => id === piece.after_answer);
    while (piece.after_answer !== undefined && !answered()) await sleep(2);
    if (piece.event === "ping") socket.send(JSON.stringify({ event: "ping", data: {} }));
    else say(socket, ++n, piece.event, piece.data);
  }
}

/** Transcripts that need no HTTP: events only, and one connection. */
const PLAIN = loadTranscripts().filter(
  ({ pieces, drop_after, abort_after }) =>
    drop_after === undefined && abort_after === undefined && pieces.every((piece) => "event" in piece),
);

describe("over a WebSocket", () => {
  test.each(PLAIN.map((transcript) => [transcript.name, transcript] as const))(
    "the transcript %s gives what it says",
    async (_, transcript) => {
      const told = { answers: [] as { id: string }[], resumed: [] };
      await using server = await SocketServer.start((socket, { type, ...rest }) => {
        if (type === "start") void tell(socket, transcript.pieces, told.answers);
        else told.answers.push(rest as { id: string });
      });
      const options = {
        ...readOptions(transcript),
        url: server.http.url,
        WebSocket: Socket,
        idempotencyKey: "key",
      };
      check(await play(startStream({ ...options, transport: "ws" })), told, transcript.expected);
      expect(server.messages[0]?.[0]).toEqual({
        type: "start",
        ...transcript.request,
        idempotency_key: "key",
      });
    },
  );

  test("the first message is the request, and the events are the same", async () => {
    await using server = await SocketServer.start((socket) => {
      socket.send(JSON.stringify({ event: "ping", data: {} }));
      say(socket, 1, "text.delta", { text: "hi" });
      say(socket, 2, "news", {});
      sayResult(socket, 3);
    });
    const handle = startStream({
      prompt: "x",
      seed: 42,
      url: server.http.url,
      apiKey: "k",
      transport: "ws",
      WebSocket: Socket,
    });
    expect(await handle.done).toMatchObject({ text: "hi", result: { answer: "ok" }, runId: RUN });
    expect(server.messages).toEqual([
      [{ type: "start", prompt: "x", seed: 42, idempotency_key: expect.any(String) }],
    ]);
    expect(server.paths).toEqual(["/v1/stream/ws?key=k"]);
  });

  test("a lost socket is taken up after the last event", async () => {
    await using server = await SocketServer.start((socket, _, connection) => {
      if (connection > 0) return sayResult(socket, 2);
      say(socket, 1, "text.delta", { text: "hi" });
      return setTimeout(() => socket.terminate(), 20);
    });
    const handle = startStream({
      prompt: "x",
      url: server.http.url,
      transport: "ws",
      WebSocket: Socket,
      reconnect: QUICK,
    });
    expect((await handle.done).text).toBe("hi");
    expect(server.messages[1]).toEqual([{ type: "resume", last_event_id: `${RUN}:1` }]);
  });

  test("tools are answered on the socket", async () => {
    await using server = await SocketServer.start((socket, message) => {
      if (message["type"] === "start")
        say(socket, 1, "tool.call", { id: "T1", name: "t", args: {}, client: true });
      else {
        say(socket, 2, "tool.result", { id: "T1", name: "t", result: message["result"] });
        sayResult(socket, 3);
      }
    });
    const tools = [{ name: "t", run: () => [1, 2] }];
    const handle = startStream({
      prompt: "x",
      url: server.http.url,
      transport: "ws",
      WebSocket: Socket,
      tools,
    });
    expect((await handle.done).toolCalls).toMatchObject([{ result: [1, 2] }]);
    expect(server.messages[0]?.[1]).toEqual({ type: "tool.result", id: "T1", result: [1, 2] });
    expect(server.http.seen).toHaveLength(0);
  });

  test("pause and resume are said to the server", async () => {
    await using server = await SocketServer.start((socket, message) => {
      if (message["type"] === "start") say(socket, 1, "text.delta", { text: "a" });
      if (message["type"] === "resume") sayResult(socket, 2);
    });
    const handle = startStream({
      prompt: "x",
      url: server.http.url,
      transport: "ws",
      WebSocket: Socket,
      onText: () => handle.pause(),
    });
    await vi.waitFor(() => expect(server.messages[0]?.[1]).toEqual({ type: "pause" }), PATIENT);
    handle.resume();
    await handle.done;
    expect(server.messages[0]?.slice(1)).toEqual([{ type: "pause" }, { type: "resume" }]);
  });

  test("a slow reader makes the server wait, with a bounded number unread", async () => {
    let waiting = false;
    let sent = 0;
    const flow = async (socket: WebSocket) => {
      for (; sent < 1000; sent += 1) {
        while (waiting) await sleep(1);
        say(socket, sent + 1, "text.delta", { text: "." });
        await new Promise(setImmediate);
      }
      sayResult(socket, 1001);
    };
    await using server = await SocketServer.start((socket, message) => {
      if (message["type"] === "start") void flow(socket);
      else waiting = message["type"] === "pause";
    });
    const go = new AbortController();
    const blocked = once(go.signal, "abort");
    const handle = startStream({
      prompt: "x",
      url: server.http.url,
      transport: "ws",
      WebSocket: Socket,
      onText: () => blocked as unknown as undefined,
    });
    await vi.waitFor(() => expect(waiting).toBe(true), PATIENT);
    await sleep(50);
    expect(sent).toBeLessThan(300);
    go.abort();
    expect((await handle.done).text).toBe(".".repeat(1000));
    expect(waiting).toBe(false);
  });

  test("abort is said to the server, which has the last word", async () => {
    await using server = await SocketServer.start((socket, message) => {
      if (message["type"] === "start") return say(socket, 1, "text.delta", { text: "a" });
      say(socket, 2, "error", { code: "aborted", message: "by the caller" });
      return say(socket, 3, "done");
    });
    const handle = startStream({ prompt: "x", url: server.http.url, transport: "ws", WebSocket: Socket });
    await handle.runId;
    await handle.abort();
    await expect(handle.done).rejects.toMatchObject({ code: "aborted", message: "by the caller" });
    expect(server.messages[0]?.slice(1)).toEqual([{ type: "abort" }]);
    expect(server.http.seen).toHaveLength(0);
  });

  test("an error without a number is a refusal, and is not tried again", async () => {
    await using server = await SocketServer.start((socket) => {
      socket.send(
        JSON.stringify({
          event: "error",
          data: { error: { code: "unknown_schema", message: "no", where: "result" } },
        }),
      );
      socket.close();
    });
    const { done } = startStream({
      prompt: "x",
      url: server.http.url,
      transport: "ws",
      WebSocket: Socket,
      reconnect: QUICK,
    });
    await expect(done).rejects.toMatchObject({ code: "unknown_schema", where: "result" });
    expect(server.messages).toHaveLength(1);
  });

  test("a server without sockets is a lost connection", async () => {
    await using server = await TestServer.start((_, response) => void response.writeHead(404).end());
    const { done } = startStream({
      prompt: "x",
      url: server.url,
      transport: "ws",
      WebSocket: Socket,
      reconnect: QUICK,
    });
    await expect(done).rejects.toMatchObject({ code: "connection_lost" });
  });

  test("a silent server is a lost connection", async () => {
    await using server = await SocketServer.start(() => {});
    const options = {
      prompt: "x",
      transport: "ws",
      WebSocket: Socket,
      idleTimeoutMs: 60,
      reconnect: QUICK,
    } as const;
    await expect(startStream({ ...options, url: server.http.url }).done).rejects.toMatchObject({
      code: "connection_lost",
    });
  });

  test("a message that is no JSON breaks the connection, which is taken up", async () => {
    await using server = await SocketServer.start((socket, _, connection) => {
      if (connection > 0) return sayResult(socket, 2);
      say(socket, 1, "text.delta", { text: "hi" });
      return socket.send("what?");
    });
    const options = { prompt: "x", transport: "ws", WebSocket: Socket, reconnect: QUICK } as const;
    expect((await startStream({ ...options, url: server.http.url }).done).text).toBe("hi");
  });

  test("an answer that the server does not accept is reported, and the stream goes on", async () => {
    await using server = await SocketServer.start((socket, message) => {
      if (message["type"] === "start")
        return say(socket, 1, "tool.call", { id: "T1", name: "t", args: {}, client: true });
      const error = { code: "malformed_request", message: "nothing waits", where: "id" };
      socket.send(JSON.stringify({ event: "rejected", data: { error } }));
      return sayResult(socket, 2);
    });
    const onError = vi.fn();
    const options = {
      prompt: "x",
      transport: "ws",
      WebSocket: Socket,
      onToolCall: async () => 1,
      onError,
    } as const;
    await startStream({ ...options, url: server.http.url }).done;
    expect(onError.mock.calls).toMatchObject([[{ code: "malformed_request", where: "id" }]]);
  });

  test("a start whose answer was lost is sent again under the same key, and only with one", async () => {
    await using server = await SocketServer.start((socket, _, connection) => {
      if (connection === 0) return socket.terminate();
      return sayResult(socket, 1);
    });
    const options = { prompt: "x", transport: "ws", WebSocket: Socket, reconnect: QUICK } as const;
    await startStream({ ...options, url: server.http.url }).done;
    expect(server.messages[0]?.[0]).toEqual(server.messages[1]?.[0]);
    await using silent = await SocketServer.start((socket) => socket.terminate());
    const once = startStream({ ...options, url: silent.http.url, idempotencyKey: false });
    await expect(once.done).rejects.toMatchObject({ code: "connection_lost" });
    expect(silent.messages).toHaveLength(1);
  });

  test("a runtime without sockets is told so at once", () => {
    vi.stubGlobal("WebSocket", undefined);
    const options = { prompt: "x", url: "http://127.0.0.1", transport: "ws" } as const;
    expect(() => startStream(options)).toThrow(/no WebSocket/);
    vi.unstubAllGlobals();
  });
});
