/** One live stream that can be paused, and taken up again where its connection broke. */
import { Refused, request } from "./client.js";
import { EventReader } from "./sse.js";

const TRIES = 8;
const SILENCE = 45_000; // three pings
const TURN = 12; // milliseconds of reading between two chances to draw
const TIMES_OUT = new Set([408, 429, 502, 503, 504, 529]);

/** Lets the page draw and handle input; reading a body without a pause would block both. */
function breath() {
  return globalThis.scheduler?.yield?.() ?? pause(0);
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function randomKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * One live stream.
 *
 * `onevent(event)` gets every numbered event; `onstate(state)` one of connecting, running, paused,
 * lost, ended. Pausing stops reading the body: the connection fills up, the gateway waits, and so
 * does the model behind it.
 */
export class LiveRun {
  id = "";
  state = "connecting";
  #last = "";
  #pace = 0;
  #left = false;
  #control = null;
  #gate = null;
  #open = () => {};
  #onevent;
  #onstate;

  constructor(onevent, onstate) {
    this.#onevent = onevent;
    this.#onstate = onstate;
  }

  /**
   * Starts a run and reads it until `done`; throws `Refused` or a network error.
   *
   * `pace` is the minimum time per event, in milliseconds.
   */
  async run(body, pace = 0) {
    this.#pace = pace;
    const headers = { "content-type": "application/json", "idempotency-key": randomKey() };
    const order = { method: "POST", headers, body: JSON.stringify(body) };
    // A repeat with the same idempotency key reads the run that the first request may have started.
    await this.#persist((signal) =>
      this.#last ? this.#again(signal) : request("/v1/stream", { ...order, signal }),
    );
    this.#set("ended");
  }

  /** Reads a run that was started elsewhere, from its first event until `done`. */
  async attach(id) {
    this.id = id;
    await this.#persist((signal) =>
      this.#last ? this.#again(signal) : request(`/v1/stream/${id}`, { signal }),
    );
    this.#set("ended");
  }

  /** Stops reading; the run goes on. */
  leave() {
    this.#left = true;
    this.#control?.abort();
    this.resume();
  }

  pause() {
    if (this.state !== "running") return;
    this.#gate = new Promise((resolve) => {
      this.#open = resolve;
    });
    this.#set("paused");
  }

  resume() {
    if (this.#gate === null) return;
    this.#gate = null;
    this.#set("running");
    this.#open();
  }

  async abort() {
    if (!this.id) return;
    await request(`/v1/stream/${this.id}`, { method: "DELETE" });
    this.resume(); // so that the end is read
  }

  /** Sends `{result}` or `{error}` for a tool that the client runs. */
  async answer(id, outcome) {
    const body = JSON.stringify({ id, ...outcome });
    const headers = { "content-type": "application/json" };
    await request(`/v1/stream/${this.id}/results`, { method: "POST", headers, body });
  }

  #again(signal) {
    const headers = { "last-event-id": this.#last };
    return request(`/v1/stream/${this.id}`, { headers, signal });
  }

  async #persist(connect) {
    for (let failures = 0; ; failures += 1) {
      const before = this.#last;
      try {
        if (await this.#follow(connect)) return;
      } catch (error) {
        if (this.#left) return;
        if (error instanceof Refused && !TIMES_OUT.has(error.status)) throw error;
        if (failures >= TRIES) throw error;
      }
      if (this.#left) return;
      if (this.#last !== before) failures = 0;
      if (failures >= TRIES) throw new Error("the connection is lost; check that the gateway runs");
      if (this.#gate === null) this.#set("lost");
      await pause(Math.min(4000, 200 * 2 ** failures));
    }
  }

  /** Reads one connection; returns whether the run has ended. */
  async #follow(connect) {
    const control = new AbortController();
    this.#control = control;
    const response = await connect(control.signal);
    this.id = response.headers.get("x-toolbridge-run") ?? this.id;
    this.#set(this.#gate === null ? "running" : "paused");
    const body = response.body.getReader();
    const reader = new EventReader();
    let breathed = performance.now();
    try {
      for (;;) {
        await this.#gate;
        const watch = setTimeout(() => control.abort(), SILENCE);
        const { done, value } = await body.read().finally(() => clearTimeout(watch));
        if (done) return false;
        if (await this.#tell(reader.feed(value))) return true;
        if (performance.now() - breathed > TURN) {
          await breath();
          breathed = performance.now();
        }
      }
    } finally {
      control.abort();
    }
  }

  /** Passes events on; returns whether the last one was among them. Paused events are passed on later. */
  async #tell(events) {
    for (const event of events) {
      if (event.name === "ping") continue;
      if (this.#pace > 0) await pause(this.#pace);
      await this.#gate;
      this.#last = event.id;
      this.#onevent(event);
      if (event.name === "done") return true;
    }
    return false;
  }

  #set(state) {
    if (this.state === state || this.#left) return;
    this.state = state;
    this.#onstate(state);
  }
}
