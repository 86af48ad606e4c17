import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    testTimeout: 20_000,
    sequence: { shuffle: true },
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
