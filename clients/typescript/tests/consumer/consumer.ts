// A project that uses the built package; compiled by `npm run check` with the libraries of a page and of Node.
import { type StreamEvent, startStream } from "toolbridge-client";

export async function ask(): Promise<string> {
  const stream = startStream<{ Action: { mode: string } }, { answer: string }>({
    url: "http://127.0.0.1:3456",
    prompt: "Hello.",
    onToolCall: async ({ id, name, args }) => ({ id, name, args }),
    onJSON: ({ id, delta, end }) => console.log(id, delta, end),
  });
  for await (const event of stream) show(event);
  return (await stream.done).result.answer;
}

function show(event: StreamEvent<{ Action: { mode: string } }>): void {
  if (event.type === "json.end") console.log(event.value.mode);
}
