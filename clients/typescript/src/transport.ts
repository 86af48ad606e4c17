/** What the stream needs of a connection; `sse_transport` and `ws_transport` have it. */

import type { Arrival, Position } from "./decode.js";
import { decodeRefusal, StreamError } from "./errors.js";
import { below } from "./request.js";

export interface Connection {
  /** The run, when the server named it before the first event. */
  readonly runId: string | undefined;
  /** Wait for messages; nothing means that the connection has ended. Not reading holds the server back. */
  read(): Promise<Arrival[] | undefined>;
  close(): void;
  /** Tell the server to wait, and to go on, where not reading does not tell it. */
  hold?(): void;
  release?(): void;
  /** Answer a tool on this connection; false when it cannot. */
  answer?(answer: Answer): boolean;
  /** Abort the run on this connection; false when it cannot. */
  abort?(): boolean;
}

export interface Transport {
  /** Start the run, or take it up after an event (`n` 0: from its start). */
  open(at: Position | undefined, signal: AbortSignal): Promise<Connection>;
  /** Whether a start whose answer was lost may be sent again without running twice. */
  readonly repeatable: boolean;
}

/** What a client-side tool gave. */
export type Answer = { id: string; result: unknown } | { id: string; error: string };

/** The requests beside the stream: answers of tools, and the abort. */
export class BackChannel {
  readonly #address: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch;

  constructor(address: URL, headers: Readonly<Record<string, string>>, fetcher: typeof fetch) {
    this.#address = address;
    this.#headers = headers;
    this.#fetch = fetcher;
  }

  async answer(runId: string, answer: Answer): Promise<void> {
    await this.#send(below(this.#address, runId, "results"), {
      method: "POST",
      headers: { ...this.#headers, "content-type": "application/json" },
      body: JSON.stringify(answer),
    });
  }

  /** Abort the run; one that the server no longer knows has ended already. */
  async abort(runId: string): Promise<void> {
    try {
      await this.#send(below(this.#address, runId), { method: "DELETE", headers: this.#headers });
    } catch (error) {
      if (!(error instanceof StreamError && error.status === 404)) throw error;
    }
  }

  async #send(address: URL, init: RequestInit): Promise<void> {
    const response = await request(this.#fetch, address, init);
    await response.body?.cancel();
  }
}

/** Fetch, with everything that goes wrong as a `StreamError`. */
export async function request(fetcher: typeof fetch, address: URL, init: RequestInit): Promise<Response> {
  const response = await fetcher(address, init).catch((cause: unknown) => {
    if (init.signal?.aborted) throw init.signal.reason;
    throw lost("the server cannot be reached", cause);
  });
  if (!response.ok) throw await decodeRefusal(response);
  return response;
}

export function lost(message: string, cause?: unknown): StreamError {
  return new StreamError("connection_lost", message, { cause });
}
