import { describe, expect, test } from "vitest";
import { startStream } from "../src/index.js";
import { check, play, QUICK, readOptions } from "./play.js";
import { loadTranscript, loadTranscripts, Replay, TestServer, type Transcript } from "./replay.js";

describe("a transcript", () => {
  test.each(loadTranscripts().map((transcript) => [transcript.name, transcript] as const))(
    "%s gives what it says",
    async (_, transcript) => {
      const replay = new Replay(transcript);
      await using server = await TestServer.start(replay.answer);
      const handle = startStream({ ...readOptions(transcript), url: server.url, reconnect: QUICK });
      check(await play(handle, transcript.abort_after), replay, transcript.expected);
      expect(server.by("POST")[0]?.body).toEqual(transcript.request);
    },
  );

  test("with raw bytes gives the same for every cut in two", async () => {
    const transcript = loadTranscript("every-line-ending");
    const piece = transcript.pieces[0] as { bytes: string };
    const bytes = Buffer.from(piece.bytes);
    for (let cut = 1; cut < bytes.length; cut += 1) {
      await playBody(transcript, [bytes.subarray(0, cut), bytes.subarray(cut)]);
    }
  });

  test("with raw bytes gives the same one byte at a time", async () => {
    const transcript = loadTranscript("every-line-ending");
    const bytes = Buffer.from((transcript.pieces[0] as { bytes: string }).bytes);
    await playBody(
      transcript,
      Array.from(bytes, (byte) => Buffer.of(byte)),
    );
  });

  test("goes over a real socket one byte at a time", async () => {
    const transcript = loadTranscript("every-line-ending");
    const bytes = Buffer.from((transcript.pieces[0] as { bytes: string }).bytes);
    const replay = new Replay(transcript);
    await using server = await TestServer.start(async (_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.socket?.setNoDelay(true);
      for (const byte of bytes) {
        response.write(Buffer.of(byte));
        await new Promise(setImmediate);
      }
      response.end();
    });
    check(await play(startStream({ prompt: "x", url: server.url })), replay, transcript.expected);
  });
});

/** Play a body through a `fetch` that delivers exactly these pieces; a socket may join them. */
async function playBody(transcript: Transcript, pieces: Uint8Array[]): Promise<void> {
  const fetch = async () => {
    const left = pieces.slice();
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const piece = left.shift();
        if (piece === undefined) controller.close();
        else controller.enqueue(piece);
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
  const handle = startStream({ prompt: "x", url: "http://127.0.0.1", fetch });
  check(await play(handle), new Replay(transcript), transcript.expected);
}
