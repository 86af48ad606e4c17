/**
 * Server-sent events, from bytes.
 *
 * The decoder holds only the line and the event that are not finished, so any cut of the
 * bytes gives the same frames, and twice the input costs twice the time.
 */

/** One server-sent event, as it was on the wire. */
export interface SseFrame {
  /** The event's name; `message` when the server gave none. */
  readonly event: string;
  /** The id that this very event carried; one of an earlier event does not stand for it. */
  readonly id: string | undefined;
  readonly data: string;
}

/** A line may end in CR, LF or CRLF. */
const LINE_END = /\r\n|\r|\n/g;

export class SseDecoder {
  // The text decoder keeps the bytes of a cut character and drops a byte order mark.
  readonly #characters = new TextDecoder();
  readonly #line: string[] = [];
  readonly #data: string[] = [];
  #event = "";
  #id: string | undefined;
  #afterCarriageReturn = false;

  /** Return the frames that these bytes complete. */
  feed(bytes: Uint8Array): SseFrame[] {
    return this.#read(this.#characters.decode(bytes, { stream: true }));
  }

  #read(piece: string): SseFrame[] {
    const frames: SseFrame[] = [];
    if (piece === "") return frames;
    // The second half of a CRLF that was cut between its two characters ends no line of its own.
    let start = this.#afterCarriageReturn && piece.startsWith("\n") ? 1 : 0;
    this.#afterCarriageReturn = piece.endsWith("\r");
    LINE_END.lastIndex = start;
    for (let end = LINE_END.exec(piece); end !== null; end = LINE_END.exec(piece)) {
      this.#line.push(piece.slice(start, end.index));
      start = LINE_END.lastIndex;
      const frame = this.#endLine();
      if (frame !== undefined) frames.push(frame);
    }
    if (start < piece.length) this.#line.push(piece.slice(start));
    return frames;
  }

  #endLine(): SseFrame | undefined {
    const line = this.#line.join("");
    this.#line.length = 0;
    if (line === "") return this.#endFrame();
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const from = line.charAt(colon + 1) === " " ? colon + 2 : colon + 1;
    this.#take(field, colon === -1 ? "" : line.slice(from));
    return undefined;
  }

  /** Take one field; a comment has an empty name, and unknown names are passed over. */
  #take(field: string, value: string): void {
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
  }

  #endFrame(): SseFrame | undefined {
    const event = this.#event || "message";
    const id = this.#id;
    const data = this.#data.splice(0);
    this.#event = "";
    this.#id = undefined;
    // The standard drops an event without data.
    if (data.length === 0) return undefined;
    return { event, id, data: data.join("\n") };
  }
}
