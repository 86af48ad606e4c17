/** The caller's options, as the server's request. */

import { StreamError } from "./errors.js";
import type { FunctionTool, StreamOptions, Tool } from "./options.js";

/** Our names and the server's. */
const FIELDS = {
  prompt: "prompt",
  messages: "messages",
  system: "system",
  model: "model",
  schemas: "schemas",
  objects: "objects",
  result: "result",
  profile: "profile",
  mode: "mode",
  frameTag: "frame_tag",
  holdResults: "hold_results",
  temperature: "temperature",
  seed: "seed",
  maxTokens: "max_tokens",
  limits: "limits",
  frameTimeoutMs: "frame_timeout_ms",
  toolTimeoutMs: "tool_timeout_ms",
  requestTimeoutMs: "request_timeout_ms",
  toolRetries: "tool_retries",
  repairRetries: "repair_retries",
  maxToolCalls: "max_tool_calls",
} as const satisfies Partial<Record<keyof StreamOptions, string>>;

export type RequestBody = Record<string, unknown>;

/** Return the body of the request; fields that the caller left out stay out. */
export function encodeRequest(options: StreamOptions<never, never>): RequestBody {
  if ((options.prompt === undefined) === (options.messages === undefined)) {
    throw malformed("give either prompt or messages", "prompt");
  }
  const body: RequestBody = {};
  for (const [ours, theirs] of Object.entries(FIELDS)) {
    const value = options[ours as keyof typeof FIELDS];
    if (value !== undefined) body[theirs] = value;
  }
  if (options.tools !== undefined) {
    const answered = options.onToolCall !== undefined;
    body["tools"] = options.tools.map((tool, index) => encodeTool(tool, index, answered));
  }
  return body;
}

function encodeTool(tool: Tool, index: number, answered: boolean): unknown {
  if (typeof tool === "string") return tool;
  if (isFunctionTool(tool)) {
    const { run: _, ...rest } = tool;
    return { ...rest, client: true };
  }
  if ("client" in tool && !answered) {
    throw malformed(
      `tool ${tool.name} runs here, but has no run() and there is no onToolCall`,
      `tools[${index}]`,
    );
  }
  return tool;
}

/** The tools that have a function, by name. */
export function functionTools(tools: readonly Tool[] = []): Map<string, FunctionTool> {
  const found = tools.filter((tool) => typeof tool !== "string").filter(isFunctionTool);
  return new Map(found.map((tool) => [tool.name, tool]));
}

function isFunctionTool(tool: Exclude<Tool, string>): tool is FunctionTool {
  return "run" in tool;
}

function malformed(message: string, where: string): StreamError {
  return new StreamError("malformed_request", message, { where });
}

/** The address of the streams, from that of the server. */
export function streamUrl(url: string | URL): URL {
  // In a page, an address may be relative to it; Node has no location.
  const address = new URL(url, globalThis.location?.href);
  const path = address.pathname.replace(/\/$/, "");
  address.pathname = path.endsWith("/v1/stream") ? path : `${path}/v1/stream`;
  address.hash = "";
  return address;
}

/** An address below that of the streams; what follows the question mark stays. */
export function below(address: URL, ...parts: string[]): URL {
  const deeper = new URL(address);
  deeper.pathname = [address.pathname, ...parts.map(encodeURIComponent)].join("/");
  return deeper;
}

export function encodeHeaders(options: Pick<StreamOptions, "apiKey" | "headers">): Record<string, string> {
  const { apiKey, headers } = options;
  return { ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }), ...headers };
}
