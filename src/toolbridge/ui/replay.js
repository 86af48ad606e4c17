/** Replays a past run at any speed, from any position. */
import { Story } from "./story.js";

export class Replay {
  story = new Story();
  now = 0;
  playing = false;
  speed = 1;
  #frames;
  #next = 0;
  #seen = 0;

  /** `frames` are the lines of `frames.ndjson`: `{ms, n, event, data}`. */
  constructor(frames) {
    this.#frames = frames;
    this.length = frames.reduce((most, frame) => Math.max(most, frame.ms), 0);
    this.seek(this.length);
  }

  seek(time) {
    if (time < this.now || this.#next === 0) {
      this.story = new Story();
      this.#next = 0;
    }
    this.now = Math.min(time, this.length);
    while (this.#next < this.#frames.length && this.#frames[this.#next].ms <= this.now) {
      const frame = this.#frames[this.#next];
      this.story.feed(frame.ms, frame.event, frame.data);
      this.#next += 1;
    }
    if (this.now >= this.length) this.playing = false;
  }

  play() {
    if (this.now >= this.length) this.seek(0);
    this.playing = true;
    this.#seen = performance.now();
  }

  pause() {
    this.playing = false;
  }

  /** Advances to the current time; call once per animation frame. */
  tick() {
    if (!this.playing) return;
    const present = performance.now();
    this.seek(this.now + (present - this.#seen) * this.speed);
    this.#seen = present;
  }
}
