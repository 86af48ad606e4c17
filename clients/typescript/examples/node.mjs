// Ask for a table, answer a tool from here, and print what happens.
//   npm run build && node examples/node.mjs ["a question"]
// TOOLBRIDGE_URL and TOOLBRIDGE_KEY say where; http://127.0.0.1:3456 without a key otherwise.

import { StreamError, startStream } from "toolbridge-client";

const askUser = {
  name: "user.confirm",
  description: "Ask the user to confirm something before it is done.",
  parameters: { type: "object", properties: { question: { type: "string" } }, required: ["question"] },
  run: async ({ question }) => {
    console.log(`? ${question} — yes`);
    return { confirmed: true };
  },
};

const controller = new AbortController();
process.once("SIGINT", () => controller.abort());

const stream = startStream({
  url: process.env.TOOLBRIDGE_URL ?? "http://127.0.0.1:3456",
  ...(process.env.TOOLBRIDGE_KEY && { apiKey: process.env.TOOLBRIDGE_KEY }),
  prompt: process.argv[2] ?? "Find pizza near me; book a table at 7pm if open.",
  tools: ["places.search", "bookings.create", askUser],
  signal: controller.signal,
});

try {
  for await (const event of stream) {
    switch (event.type) {
      case "text.delta":
        process.stdout.write(event.text);
        break;
      case "json.end":
        console.log(`\n${event.schema} ${event.id}${event.status ? ` (${event.status})` : ""}:`, event.value);
        break;
      case "tool.call":
        console.log(`\n→ ${event.name}`, event.args);
        break;
      case "tool.result":
        console.log(`← ${event.name}${event.cached ? " (cached)" : ""}`, event.result);
        break;
      case "error":
        console.error(`! ${event.code}: ${event.message}`);
        break;
      default:
    }
  }
  const { result, runId } = await stream.done;
  console.log(`\n${runId}:`, result);
} catch (error) {
  if (!(error instanceof StreamError)) throw error;
  console.error(`\n${error.code}: ${error.message}`);
  process.exitCode = 1;
}
