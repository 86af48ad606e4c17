/** A real HTTP server that replays transcripts; see transcripts/README.md. */

import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** For `vi.waitFor`, which otherwise gives up after a second: a busy machine may take longer. */
export const PATIENT = { timeout: 15_000 };

export const RUN = "run_00000000000000ab";

interface Waits {
  after_ms?: number;
  after_answer?: string;
  after_abort?: boolean;
}
export type Piece = Waits & ({ bytes: string } | { event: string; data: unknown });

export interface Transcript {
  name: string;
  why: string;
  request: Record<string, unknown>;
  client_tools?: Record<string, { result?: unknown; error?: string; after_ms?: number }>;
  abort_after?: number;
  status?: number;
  headers?: Record<string, string>;
  pieces: Piece[];
  drop_after?: { events: number; bytes?: number; clean?: boolean }[];
  expected: Expected;
}

export interface Expected {
  events?: string[];
  text?: string;
  result?: unknown;
  result_status?: string;
  usage?: unknown;
  objects?: unknown[];
  tool_calls?: Record<string, unknown>[];
  errors?: string[];
  error?: { code: string; status?: number; where?: string; message?: string; retry_after_ms?: number };
  answers?: { id: string; result?: unknown; error?: string | true }[];
  resumed?: (string | null)[];
}

const FOLDER = new URL("../transcripts/", import.meta.url);

export function loadTranscripts(): Transcript[] {
  const files = readdirSync(FOLDER).filter((file) => file.endsWith(".json"));
  return files.map((file) => JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")));
}

export function loadTranscript(name: string): Transcript {
  return JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), "utf8"));
}

export interface Seen {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: unknown;
}

export type Answerer = (request: Seen, response: ServerResponse) => Promise<void> | void;

/** A server on loopback that notes each request and gives it to `answer`. */
export class TestServer implements AsyncDisposable {
  readonly seen: Seen[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(answer: Answerer) {
    this.#server = createServer(async (request, response) => {
      const seen = await note(request);
      this.seen.push(seen);
      response.on("error", () => {});
      await answer(seen, response);
    });
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  static async start(answer: Answerer): Promise<TestServer> {
    const server = new TestServer(answer);
    server.#server.listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    return server;
  }

  get http(): Server {
    return this.#server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The requests by a method, in order. */
  by(method: string): Seen[] {
    return this.seen.filter((request) => request.method === method);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }
}

async function note(request: IncomingMessage): Promise<Seen> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const text = Buffer.concat(parts).toString();
  const { method = "", url: path = "", headers } = request;
  return { method, path, headers, body: text === "" ? undefined : JSON.parse(text) };
}

/** One wire event as bytes, in the form that the README of the transcripts fixes. */
export function encodeEvent(event: string, data: unknown, n?: number): Buffer {
  const id = n === undefined ? "" : `id: ${RUN}:${n}\n`;
  return Buffer.from(`event: ${event}\n${id}data: ${JSON.stringify(data)}\n\n`);
}

interface Planned extends Waits {
  bytes: Buffer;
  n: number;
  counted: boolean;
}

/** A number and its bytes for each piece. */
function plan(pieces: Piece[]): Planned[] {
  let n = 0;
  return pieces.map((piece) => {
    if ("bytes" in piece) return { ...piece, bytes: Buffer.from(piece.bytes), n, counted: false };
    const counted = piece.event !== "ping";
    if (counted) n += 1;
    return { ...piece, bytes: encodeEvent(piece.event, piece.data, counted ? n : undefined), n, counted };
  });
}

export const STREAM_HEADERS = { "content-type": "text/event-stream", "x-toolbridge-run": RUN };

/** Replays one transcript, with its breaks, and takes answers and aborts. */
export class Replay {
  readonly answers: { id: string }[] = [];
  readonly resumed: (string | null)[] = [];
  readonly #transcript: Transcript;
  readonly #pieces: Planned[];
  #connections = 0;
  #aborted = false;

  constructor(transcript: Transcript) {
    this.#transcript = transcript;
    this.#pieces = plan(transcript.pieces);
  }

  readonly answer: Answerer = async (request, response) => {
    if (request.method === "DELETE") {
      this.#aborted = true;
      response.writeHead(204).end();
    } else if (request.path.endsWith("/results")) {
      this.answers.push(request.body as { id: string });
      response.writeHead(204).end();
    } else {
      await this.#stream(request, response);
    }
  };

  async #stream(request: Seen, response: ServerResponse): Promise<void> {
    const last = request.headers["last-event-id"] as string | undefined;
    if (request.method === "GET") this.resumed.push(last ?? null);
    const { status = 200, headers = {}, drop_after = [] } = this.#transcript;
    const drop = drop_after[this.#connections++];
    response.writeHead(status, { ...STREAM_HEADERS, ...headers });
    response.flushHeaders();
    for (const piece of this.#body(Number(last?.split(":")[1] ?? 0), drop)) {
      await this.#wait(piece);
      if (response.destroyed) return;
      response.write(piece.bytes);
    }
    await this.#finish(response, drop);
  }

  /** The pieces of a connection that starts after event `after`, up to where it breaks. */
  #body(after: number, drop: { events: number; bytes?: number } | undefined): Planned[] {
    const rest = this.#pieces.filter(({ n, counted }) => n > after || (!counted && n === after));
    if (drop === undefined) return rest;
    const whole = rest.filter(({ n }) => n <= after + drop.events);
    const broken = rest[whole.length];
    if (broken === undefined || drop.bytes === undefined) return whole;
    return [...whole, { ...broken, bytes: broken.bytes.subarray(0, drop.bytes) }];
  }

  async #finish(response: ServerResponse, drop: { clean?: boolean } | undefined): Promise<void> {
    if (drop === undefined || drop.clean) response.end();
    // The client must have read what was written, or it would rightly resume from an earlier event.
    else setTimeout(() => response.destroy(), 150);
  }

  async #wait(piece: Planned): Promise<void> {
    if (piece.after_ms !== undefined) await sleep(piece.after_ms);
    const answered = () => this.answers.some(({ id }) => id === piece.after_answer);
    while (piece.after_answer !== undefined && !answered()) await sleep(2);
    while (piece.after_abort && !this.#aborted) await sleep(2);
  }
}
