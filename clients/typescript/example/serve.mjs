// SPDX-License-Identifier: Apache-2.0
/**
 * The example's backend: serves the page and the client, and passes the client's requests on to the service with the app's
 * key, which therefore never reaches a browser.
 *
 *     RETICENT_APP_KEY=… node clients/typescript/example/serve.mjs [--service http://127.0.0.1:8400] [--port 8500]
 *
 * Only what a device of the local model asks for is passed on.
 */

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";
import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    service: { type: "string", default: "http://127.0.0.1:8400" },
    port: { type: "string", default: "8500" },
  },
});
const KEY = process.env.RETICENT_APP_KEY ?? "dev-app-key";
const LARGEST = 1 << 20;
const KINDS = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml" };
const PAGE = { "/": "index.html", "/visit.js": "visit.js", "/style.css": "style.css", "/icon.svg": "icon.svg" };
const PROTECTION = {
  "Content-Security-Policy":
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
};
const PASSED_ON = {
  GET: /^\/v1\/(status|model|round|billboards\/\d+)$/,
  POST: /^\/v1\/episodes(\/[0-9a-f]{32}\/report)?$/,
};

/** Where a path of the page is on the disk; null if it is none of it. */
function fileOf(path) {
  if (path in PAGE) return new URL(PAGE[path], import.meta.url);
  // The built client, whose files are named by letters, digits and underscores in folders of the same.
  return /^\/client(\/\w+)+\.js$/.test(path) ? new URL(`../dist${path.slice("/client".length)}`, import.meta.url) : null;
}

async function passOn(request, path) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > LARGEST) return { status: 413, headers: {}, body: "" };
    chunks.push(chunk);
  }
  const answer = await fetch(options.service + path, {
    method: request.method,
    body: request.method === "POST" ? Buffer.concat(chunks) : undefined,
    headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json", Accept: "application/json" },
    redirect: "manual",
  });
  const kept = ["content-type", "retry-after"].filter((name) => answer.headers.has(name));
  const headers = Object.fromEntries(kept.map((name) => [name, answer.headers.get(name)]));
  return { status: answer.status, headers, body: Buffer.from(await answer.arrayBuffer()) };
}

async function answerTo(request) {
  const { pathname: path } = new URL(request.url, "http://localhost");
  if (PASSED_ON[request.method]?.test(path)) return passOn(request, path);
  const file = request.method === "GET" ? fileOf(path) : null;
  if (file === null) return { status: 404, headers: {}, body: "" };
  const kind = `${KINDS[extname(file.pathname)]}; charset=utf-8`;
  return { status: 200, headers: { "Content-Type": kind, ...PROTECTION }, body: await readFile(file) };
}

const server = createServer((request, response) => {
  answerTo(request)
    .catch(() => ({ status: 502, headers: {}, body: "" }))
    .then(({ status, headers, body }) => response.writeHead(status, { "Cache-Control": "no-store", ...headers }).end(body));
});
server.listen(Number(options.port), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
