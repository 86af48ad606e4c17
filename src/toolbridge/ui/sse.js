/** Parses server-sent events from chunks of bytes. */
export class EventReader {
  #decoder = new TextDecoder();
  #line = "";
  #name = "";
  #data = [];
  #id = "";

  /** Returns the events that are complete with `bytes`: `{name, data, id}`. */
  feed(bytes) {
    const text = this.#decoder.decode(bytes, { stream: true });
    const found = [];
    let from = 0;
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", from)) {
      this.#take(this.#line + text.slice(from, at), found);
      this.#line = "";
      from = at + 1;
    }
    this.#line += text.slice(from);
    return found;
  }

  #take(raw, found) {
    const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
    if (line === "") {
      this.#finish(found);
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id") this.#id = value;
  }

  #finish(found) {
    if (this.#data.length > 0) {
      const data = JSON.parse(this.#data.join("\n"));
      found.push({ name: this.#name || "message", data, id: this.#id });
    }
    this.#name = "";
    this.#data = [];
    this.#id = "";
  }
}
