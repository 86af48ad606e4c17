// Server tools of the gateway, read by the official JavaScript SDKs and the Vercel AI SDK.
//
//   node server_tools.mjs URL
//
// Prints one line of JSON per SDK: the searches, the addresses that they found, the text, the error.

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { GoogleGenAI } from "@google/genai";
import { streamText } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createGoogleGenerativeAI } from "@ai-sdk/google";

const url = process.argv[2];
const model = "test-model";
const apiKey = "dummy-local-token";
const prompt = "Where is Zürich?";
const base = { baseURL: `${url}/v1`, apiKey };

async function anthropic(seen) {
  const sdk = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
  const tools = [{ type: "web_search_20250305", name: "web_search" }];
  const messages = [{ role: "user", content: prompt }];
  const stream = sdk.messages.stream({ model, max_tokens: 1024, tools, messages });
  const { content } = await stream.finalMessage();
  for (const block of content) {
    if (block.type === "server_tool_use") seen.queries.push(block.input.query);
    if (block.type === "web_search_tool_result")
      seen.urls.push(...block.content.map((hit) => hit.url));
  }
  return content.map((block) => block.text ?? "").join("");
}

async function responses(seen) {
  const sdk = new OpenAI({ ...base, maxRetries: 0 });
  const include = ["web_search_call.action.sources"];
  const stream = sdk.responses.stream({
    model,
    input: prompt,
    tools: [{ type: "web_search" }],
    include,
  });
  const response = await stream.finalResponse();
  for (const item of response.output) {
    if (item.type !== "web_search_call") continue;
    seen.queries.push(item.action.query);
    seen.urls.push(...item.action.sources.map((source) => source.url));
  }
  return response.output_text;
}

async function genai(seen) {
  const sdk = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } });
  const config = { tools: [{ googleSearch: {} }] };
  let text = "";
  for await (const chunk of await sdk.models.generateContentStream({
    model,
    contents: prompt,
    config,
  })) {
    text += chunk.text ?? "";
    const grounding = chunk.candidates?.[0]?.groundingMetadata;
    if (!grounding) continue;
    seen.queries = grounding.webSearchQueries ?? [];
    seen.urls = (grounding.groundingChunks ?? []).map((one) => one.web.uri);
  }
  return text;
}

async function vercel(seen, languageModel, tools) {
  const result = streamText({
    model: languageModel,
    prompt,
    maxRetries: 0,
    tools,
    onError: ({ error }) => {
      seen.error = String(error?.message ?? error);
    },
  });
  let text = "";
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") text += part.text;
    if (part.type === "tool-call") seen.queries.push(part.input?.query ?? part.toolName);
    if (part.type === "source") seen.urls.push(part.url);
    if (part.type === "finish-step") seen.stop = part.finishReason;
    if (part.type === "error" || part.type === "tool-error") seen.error = String(part.error);
  }
  return text;
}

const claude = createAnthropic(base);
const openai = createOpenAI(base);
const google = createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey });
const sdks = {
  anthropic,
  openai_responses: responses,
  genai,
  vercel_anthropic: (seen) =>
    vercel(seen, claude(model), { web_search: claude.tools.webSearch_20250305({}) }),
  vercel_openai_responses: (seen) =>
    vercel(seen, openai.responses(model), { web_search: openai.tools.webSearch({}) }),
  // The AI SDK offers the search only to models with names of Gemini.
  vercel_google: (seen) =>
    vercel(seen, google("gemini-2.5-flash"), { google_search: google.tools.googleSearch({}) }),
};

for (const [sdk, run] of Object.entries(sdks)) {
  const seen = { sdk, queries: [], urls: [], error: null, text: null };
  try {
    seen.text = (await run(seen)) ?? null;
  } catch (error) {
    seen.error = `${error?.constructor?.name}: ${error?.message ?? error}`;
  }
  console.log(JSON.stringify(seen));
}
process.exit(0);
