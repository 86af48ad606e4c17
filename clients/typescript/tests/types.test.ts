import { describe, expectTypeOf, test } from "vitest";
import type {
  DeepPartial,
  OnJSON,
  OnResult,
  OnToolCall,
  Outcome,
  StreamEvent,
  StreamHandle,
} from "../src/index.js";
import { startStream } from "../src/index.js";

interface Action {
  mode: "search" | "book";
  target: { kind: string; tags: string[] };
}
interface Note {
  text: string;
}
interface Reply {
  answer: string;
  citations: string[];
}
type Objects = { Action: Action; Note: Note };

describe("types", () => {
  test("callbacks take the functions that the requirements name", () => {
    expectTypeOf<
      (t: { id: string; name: string; args: unknown }) => Promise<unknown>
    >().toExtend<OnToolCall>();
    expectTypeOf<(j: { id: string; delta?: string; end?: boolean }) => void>().toExtend<OnJSON>();
    expectTypeOf<(r: { id: string; delta?: string; end?: boolean }) => void>().toExtend<OnResult>();
    expectTypeOf<Parameters<OnToolCall>[0]>().toExtend<{ id: string; name: string; args: unknown }>();
    expectTypeOf<Parameters<OnJSON>[0]>().toExtend<{ id: string; delta?: string; end?: boolean }>();
  });

  test("a stream knows its objects and its result", () => {
    const start = () =>
      startStream<Objects, Reply>({ url: "http://127.0.0.1", prompt: "x", objects: ["Action"] });
    expectTypeOf(start).returns.toEqualTypeOf<StreamHandle<Objects, Reply>>();
    expectTypeOf<Awaited<ReturnType<typeof start>["done"]>>().toEqualTypeOf<Outcome<Objects, Reply>>();
    expectTypeOf<Outcome<Objects, Reply>["result"]>().toEqualTypeOf<Reply>();
  });

  test("the type of an event, and then its schema, tell what it holds", () => {
    const look = (event: StreamEvent<Objects, Reply>) => {
      if (event.type === "text.delta") expectTypeOf(event.text).toEqualTypeOf<string>();
      if (event.type === "result.end") expectTypeOf(event.value).toEqualTypeOf<Reply>();
      if (event.type === "json.end" && event.schema === "Action")
        expectTypeOf(event.value).toEqualTypeOf<Action>();
      if (event.type === "json.end" && event.schema === "Note")
        expectTypeOf(event.value).toEqualTypeOf<Note>();
    };
    expectTypeOf(look).toBeFunction();
  });

  test("a value so far may lack anything", () => {
    type Part = DeepPartial<Action>;
    expectTypeOf<Part["mode"]>().toEqualTypeOf<"search" | "book" | undefined>();
    expectTypeOf<NonNullable<Part["target"]>["tags"]>().toEqualTypeOf<string[] | undefined>();
  });

  test("a request is a prompt or a conversation, not both", () => {
    const url = "http://127.0.0.1";
    // @ts-expect-error: one of the two is needed.
    const neither = () => startStream({ url });
    // @ts-expect-error: only one of the two may be given.
    const both = () => startStream({ url, prompt: "x", messages: [] });
    // @ts-expect-error: no such field.
    const misspelt = () => startStream({ url, prompt: "x", temprature: 1 });
    for (const wrong of [neither, both, misspelt]) expectTypeOf(wrong).toBeFunction();
  });
});
