import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

test("every piece of code in the README has the right types", async () => {
  const blocks = readFileSync(`${ROOT}README.md`, "utf8").matchAll(/```ts\n(.*?)```/gs);
  const folder = mkdtempSync(`${ROOT}node_modules/.readme-`);
  try {
    const files = Array.from(blocks, ([, code], index) => [`${index}.ts`, code as string] as const);
    expect(files.length).toBeGreaterThan(3);
    for (const [name, code] of files) writeFileSync(`${folder}/${name}`, code);
    const compilerOptions = { types: [], paths: { "toolbridge-client": [`${ROOT}src/index.ts`] } };
    const config = { extends: `${ROOT}tsconfig.json`, compilerOptions, include: ["*.ts"] };
    writeFileSync(`${folder}/tsconfig.json`, JSON.stringify(config));
    writeFileSync(`${folder}/package.json`, '{"type": "module"}');
    const tsc = `${ROOT}node_modules/.bin/tsc`;
    const { stdout } = await promisify(execFile)(tsc, ["-p", folder]).catch(
      (error: { stdout: string }) => error,
    );
    expect(stdout).toBe("");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
