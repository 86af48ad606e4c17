/** How a transcript is played by the client, and how its expectations are checked. */

import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { type Outcome, StreamError, type StreamEvent, type StreamHandle } from "../src/index.js";
import type { StreamOptions } from "../src/options.js";
import type { Expected, Transcript } from "./replay.js";

export const QUICK = { attempts: 4, baseMs: 5, maxMs: 20 };

/** The options that make the request of a transcript. */
export function readOptions(transcript: Transcript): StreamOptions {
  const options: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(transcript.request)) {
    options[name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())] = value;
  }
  const tools = transcript.client_tools;
  if (tools === undefined) return options as unknown as StreamOptions;
  const onToolCall: StreamOptions["onToolCall"] = async ({ name, signal }) => {
    const { after_ms = 0, error, result } = tools[name] ?? { error: `no ${name}` };
    await sleep(after_ms, undefined, { ...(signal && { signal }) });
    if (error !== undefined) throw new Error(error);
    return result;
  };
  return { ...options, onToolCall } as unknown as StreamOptions;
}

/** What the server was told. */
export interface Told {
  answers: { id: string }[];
  resumed: (string | null)[];
}

interface Played {
  events: StreamEvent[];
  outcome: Partial<Outcome>;
  error: StreamError | undefined;
}

export async function play(handle: StreamHandle, abortAfter?: number): Promise<Played> {
  const events: StreamEvent[] = [];
  try {
    for await (const event of handle) {
      events.push(event);
      if (event.n === abortAfter) await handle.abort();
    }
    return { events, outcome: await handle.done, error: undefined };
  } catch (error) {
    if (!(error instanceof StreamError)) throw error;
    return { events, outcome: error.outcome ?? {}, error };
  }
}

export function check(played: Played, replay: Told, expected: Expected): void {
  const { events, outcome, error } = played;
  const calls = outcome.toolCalls?.map(({ client, cached, ...rest }) => ({
    ...rest,
    ...(client && { client }),
    ...(cached && { cached }),
  }));
  const actual: Record<keyof Expected, unknown> = {
    events: events.map(({ type }) => type),
    text: outcome.text,
    result: outcome.result,
    result_status: outcome.resultStatus,
    usage: outcome.usage,
    objects: outcome.objects,
    tool_calls: calls,
    errors: outcome.errors?.map(({ code }) => code),
    error: error && { code: error.code, status: error.status, where: error.where, message: error.message },
    answers: replay.answers,
    resumed: replay.resumed,
  };
  const { error: failure, answers, ...rest } = expected;
  for (const [name, value] of Object.entries(rest))
    expect(actual[name as keyof Expected], name).toEqual(value);
  expect(error?.code, error?.message).toBe(failure?.code);
  const { retry_after_ms, ...stated } = failure ?? {};
  expect(actual.error ?? {}).toMatchObject(stated);
  if (retry_after_ms !== undefined) expect(error?.retryAfterMs).toBe(retry_after_ms);
  const texts = answers?.map((answer) =>
    answer.error === true ? { ...answer, error: expect.any(String) } : answer,
  );
  if (texts !== undefined) expect(replay.answers).toEqual(texts);
  expect(replay.resumed).toEqual(expected.resumed ?? []);
}
