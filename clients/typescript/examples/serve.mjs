// Serve examples/index.html, with a stand-in for the server that replays one transcript slowly.
//   npm run build && node examples/serve.mjs [port]
// The page also talks to a real server: put its address into the first field.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const ROOT = new URL("../", import.meta.url);
const TYPES = { ".html": "text/html", ".js": "text/javascript" };
const RUN = "run_00000000000000ab";
const { pieces } = JSON.parse(await readFile(new URL("transcripts/one-tool.json", ROOT), "utf8"));
let aborted = false;

async function replay(request, response) {
  if (request.method === "POST") aborted = false;
  const last = Number((request.headers["last-event-id"] ?? ":0").split(":")[1]);
  response.writeHead(200, { "content-type": "text/event-stream", "x-toolbridge-run": RUN });
  const write = (n, { event, data }) =>
    response.write(`event: ${event}\nid: ${RUN}:${n}\ndata: ${JSON.stringify(data)}\n\n`);
  let n = last + 1;
  for (; n <= pieces.length && !aborted && !response.destroyed; n += 1) {
    write(n, pieces[n - 1]);
    await sleep(250);
  }
  if (aborted) {
    write(n, { event: "error", data: { code: "aborted", message: "the run was aborted" } });
    write(n + 1, { event: "done", data: {} });
  }
  response.end();
}

async function serveFile(path, response) {
  const name = path === "/" ? "examples/index.html" : path.slice(1);
  if (!/^(?:examples\/index\.html|dist\/\w+\.js)$/.test(name)) return response.writeHead(404).end();
  const body = await readFile(new URL(name, ROOT));
  return response.writeHead(200, { "content-type": TYPES[extname(name)] }).end(body);
}

createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://localhost");
  if (request.method === "DELETE") {
    aborted = true;
    response.writeHead(204).end();
  } else if (pathname.startsWith("/v1/stream")) await replay(request, response);
  else await serveFile(pathname, response);
}).listen(Number(process.argv[2] ?? 8080), "127.0.0.1", function () {
  console.log(`http://127.0.0.1:${this.address().port}/`);
});
