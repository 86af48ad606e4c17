import { describe, expect, test } from "vitest";
import { decodeRefusal } from "../src/errors.js";

describe("a refusal", () => {
  test.each<[string, object]>([
    [
      '{"error":{"code":"too_large","message":"m","where":"prompt"}}',
      { code: "too_large", message: "m", where: "prompt" },
    ],
    ['{"error":{"code":"too_large"}}', { code: "too_large", message: "too_large", where: undefined }],
    ['{"error":{"message":"m"}}', { code: "http_error" }],
    ['{"error":"m"}', { code: "http_error" }],
    ["null", { code: "http_error" }],
    ["", { code: "http_error", message: "the server answered 413" }],
  ])("with the body %s is read", async (body, error) => {
    expect(await decodeRefusal(new Response(body, { status: 413 }))).toMatchObject({ status: 413, ...error });
  });

  test("says how long to wait, in seconds or by a date, or not at all", async () => {
    const wait = async (value: string) =>
      (await decodeRefusal(new Response("", { status: 429, headers: { "retry-after": value } })))
        .retryAfterMs;
    expect(await wait("3")).toBe(3000);
    expect(await wait("soon")).toBeUndefined();
    expect(await wait(new Date(Date.now() - 5000).toUTCString())).toBe(0);
    expect(await wait(new Date(Date.now() + 60_000).toUTCString())).toBeGreaterThan(50_000);
  });
});
