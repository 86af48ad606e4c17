/** Follows the requests of the gateway: `/v1/requests/stream`, again and again while the page is seen. */
import { request } from "./client.js";
import { EventReader } from "./sse.js";

const SILENCE = 40_000; // more than two pings
const UNSEEN = 30_000; // a page in the background does not watch
const LONGEST = 8000;

export class RequestFeed {
  state = "connecting";
  #onrows;
  #onstate;
  #control = null;
  #stopped = false;
  #failures = 0;
  #timer = 0;
  #rests = false;
  #wake = () => {};

  /** `onrows(rows, first, data)` gets rows; `onstate(state, wait)` one of connecting, live, lost, refused, limited. */
  constructor(onrows, onstate) {
    this.#onrows = onrows;
    this.#onstate = onstate;
    document.addEventListener("visibilitychange", () => this.#look());
  }

  /** Reads until `stop`; throws when the key is refused. */
  async run() {
    this.#stopped = false;
    while (!this.#stopped) {
      try {
        await this.#read();
      } catch (error) {
        if (error.wantsKey || error.isLimit) {
          this.#set(error.isLimit ? "limited" : "refused");
          throw error;
        }
      }
      if (this.#stopped) return;
      if (this.#rests) {
        await seen();
        this.#rests = false;
        continue;
      }
      this.#failures += 1;
      const wait = this.#failures === 1 ? 250 : Math.min(LONGEST, 500 * 2 ** this.#failures);
      if (this.#failures > 1) this.#set("lost", wait);
      await this.#pause(wait);
    }
  }

  stop() {
    this.#stopped = true;
    this.#control?.abort();
    this.#wake();
  }

  /** Connects at once, without the rest of the wait. */
  retry() {
    this.#wake();
  }

  async #read() {
    const control = new AbortController();
    this.#control = control;
    let watch = setTimeout(() => control.abort(), SILENCE);
    try {
      const response = await request("/v1/requests/stream", { signal: control.signal });
      const reader = new EventReader();
      for await (const piece of pieces(response.body)) {
        clearTimeout(watch);
        watch = setTimeout(() => control.abort(), SILENCE);
        for (const event of reader.feed(piece)) this.#tell(event);
      }
    } finally {
      clearTimeout(watch);
      control.abort();
    }
  }

  #tell({ name, data }) {
    if (name === "first") {
      this.#failures = 0;
      this.#set("live");
    }
    if (name === "first" || name === "rows") this.#onrows(data.rows, name === "first", data);
  }

  #pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #look() {
    clearTimeout(this.#timer);
    if (document.hidden) {
      this.#timer = setTimeout(() => {
        this.#rests = true;
        this.#control?.abort();
      }, UNSEEN);
    }
  }

  #set(state, wait = 0) {
    this.state = state;
    this.#onstate(state, wait);
  }
}

/** Resolves when somebody looks at the page. */
function seen() {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });
}

async function* pieces(body) {
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
