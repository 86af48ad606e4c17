// The official JavaScript SDKs and the Vercel AI SDK, each in a loop of tool calls.
//
//   node sdks.mjs URL      with PROMPT and TOOL (JSON: name, schema) in the environment
//
// Prints one line of JSON per SDK: its calls, its last text, its stop reasons, its error if any.
// Tools are not run; each call is answered with its own arguments.

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { GoogleGenAI } from "@google/genai";
import { Ollama } from "ollama";
import { jsonSchema, stepCountIs, streamText, tool } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createGoogleGenerativeAI } from "@ai-sdk/google";

const url = process.argv[2];
const prompt = process.env.PROMPT;
const { name, schema } = JSON.parse(process.env.TOOL);
const model = "test-model";
const apiKey = "dummy-local-token";
const description = "Does what it says.";
const TURNS = 4;

const answer = (seen, called, args) => {
  seen.calls.push({ name: called, args });
  return `done with ${JSON.stringify(args)}`;
};

async function anthropic(seen, send) {
  const sdk = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
  const tools = [{ name, description, input_schema: schema }];
  const messages = [{ role: "user", content: prompt }];
  for (let turn = 0; turn < TURNS; turn++) {
    const message = await send(sdk, { model, max_tokens: 1024, tools, messages });
    seen.stops.push(message.stop_reason);
    const calls = message.content.filter((block) => block.type === "tool_use");
    if (!calls.length) return message.content.map((block) => block.text ?? "").join("");
    messages.push({ role: "assistant", content: message.content });
    const results = calls.map((call) => ({
      type: "tool_result",
      tool_use_id: call.id,
      content: answer(seen, call.name, call.input),
    }));
    messages.push({ role: "user", content: results });
  }
}

async function chat(seen) {
  const sdk = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
  const tools = [{ type: "function", function: { name, description, parameters: schema } }];
  const messages = [{ role: "user", content: prompt }];
  for (let turn = 0; turn < TURNS; turn++) {
    const stream = sdk.chat.completions.stream({ model, messages, tools });
    const { choices } = await stream.finalChatCompletion();
    seen.stops.push(choices[0].finish_reason);
    const { content, tool_calls: calls } = choices[0].message;
    if (!calls?.length) return content;
    messages.push({
      role: "assistant",
      content,
      tool_calls: calls.map(({ id, type, function: f }) => ({
        id,
        type,
        function: { name: f.name, arguments: f.arguments },
      })),
    });
    for (const { id, function: f } of calls) {
      const result = answer(seen, f.name, JSON.parse(f.arguments));
      messages.push({ role: "tool", tool_call_id: id, content: result });
    }
  }
}

async function responses(seen) {
  const sdk = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
  const tools = [{ type: "function", name, description, parameters: schema, strict: false }];
  const input = [{ role: "user", content: prompt }];
  for (let turn = 0; turn < TURNS; turn++) {
    const stream = sdk.responses.stream({ model, input, tools });
    const response = await stream.finalResponse();
    seen.stops.push(response.status);
    const calls = response.output.filter((item) => item.type === "function_call");
    if (!calls.length) return response.output_text;
    for (const { parsed_arguments: _, ...item } of response.output) {
      const content = item.content?.map(({ parsed: _parsed, ...part }) => part);
      input.push(content ? { ...item, content } : item);
    }
    for (const call of calls) {
      const output = answer(seen, call.name, JSON.parse(call.arguments));
      input.push({ type: "function_call_output", call_id: call.call_id, output });
    }
  }
}

async function genai(seen) {
  const sdk = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } });
  const declared = [{ name, description, parametersJsonSchema: schema }];
  const config = { tools: [{ functionDeclarations: declared }] };
  const contents = [{ role: "user", parts: [{ text: prompt }] }];
  for (let turn = 0; turn < TURNS; turn++) {
    const parts = [];
    let stop;
    for await (const chunk of await sdk.models.generateContentStream({ model, contents, config })) {
      stop = chunk.candidates?.[0]?.finishReason ?? stop;
      parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
    }
    seen.stops.push(stop);
    const calls = parts.filter((part) => part.functionCall).map((part) => part.functionCall);
    if (!calls.length) return parts.map((part) => part.text ?? "").join("");
    contents.push({ role: "model", parts });
    const results = calls.map((call) => ({
      functionResponse: {
        id: call.id,
        name: call.name,
        response: { result: answer(seen, call.name, call.args) },
      },
    }));
    contents.push({ role: "user", parts: results });
  }
}

async function ollama(seen) {
  const sdk = new Ollama({ host: url });
  const tools = [{ type: "function", function: { name, description, parameters: schema } }];
  const messages = [{ role: "user", content: prompt }];
  for (let turn = 0; turn < TURNS; turn++) {
    const calls = [];
    let content = "";
    for await (const part of await sdk.chat({ model, messages, tools, stream: true })) {
      content += part.message.content ?? "";
      calls.push(...(part.message.tool_calls ?? []));
      if (part.done) seen.stops.push(part.done_reason);
    }
    if (!calls.length) return content;
    messages.push({ role: "assistant", content, tool_calls: calls });
    for (const { function: f } of calls) {
      const result = answer(seen, f.name, f.arguments);
      messages.push({ role: "tool", tool_name: f.name, content: result });
    }
  }
}

async function vercel(seen, languageModel) {
  const offered = tool({
    description,
    inputSchema: jsonSchema(schema),
    execute: async (args) => answer(seen, name, args),
  });
  const result = streamText({
    model: languageModel,
    prompt,
    maxRetries: 0,
    stopWhen: stepCountIs(TURNS),
    tools: { [name]: offered },
    onError: ({ error }) => {
      seen.error = String(error?.message ?? error);
    },
  });
  let text = "";
  for await (const part of result.fullStream) {
    if (part.type === "start-step") text = "";
    if (part.type === "text-delta") text += part.text;
    if (part.type === "finish-step") seen.stops.push(part.finishReason);
    if (part.type === "error" || part.type === "tool-error") seen.error = String(part.error);
  }
  return text;
}

const base = { baseURL: `${url}/v1`, apiKey };
const sdks = {
  anthropic: (seen) =>
    anthropic(seen, (sdk, request) => sdk.messages.stream(request).finalMessage()),
  anthropic_whole: (seen) => anthropic(seen, (sdk, request) => sdk.messages.create(request)),
  openai_chat: chat,
  openai_responses: responses,
  genai,
  ollama,
  vercel_anthropic: (seen) => vercel(seen, createAnthropic(base)(model)),
  vercel_openai_responses: (seen) => vercel(seen, createOpenAI(base).responses(model)),
  vercel_openai_chat: (seen) => vercel(seen, createOpenAI(base).chat(model)),
  vercel_compatible: (seen) =>
    vercel(seen, createOpenAICompatible({ ...base, name: "local" })(model)),
  vercel_google: (seen) =>
    vercel(seen, createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey })(model)),
};

for (const [sdk, run] of Object.entries(sdks)) {
  const seen = { sdk, calls: [], stops: [], error: null, text: null };
  try {
    seen.text = (await run(seen)) ?? null;
  } catch (error) {
    seen.error = `${error?.constructor?.name}: ${error?.message ?? error}`;
  }
  console.log(JSON.stringify(seen));
}
process.exit(0);
