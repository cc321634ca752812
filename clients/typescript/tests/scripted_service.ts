// SPDX-License-Identifier: Apache-2.0
/** A service that says what a test tells it to, lies included, and writes down what it is sent. */

import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { type Json, deploymentOf } from "./vectors.js";

export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export type Answer = { status?: number; headers?: Record<string, string>; body?: unknown } | "lost" | null;

/** Serve until `during` is over. `answer` may give null, which is a 404, or lose the request. */
export async function serving(
  answer: (sent: Sent) => Answer,
  during: (url: string, sent: Sent[]) => Promise<void>,
): Promise<void> {
  const sent: Sent[] = [];
  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = "", url: path = "", headers } = request;
    sent.push({ method, path, headers, body: Buffer.concat(chunks).toString() });
    const given = answer(sent.at(-1)!);
    if (given === "lost") {
      request.socket.destroy();
      return;
    }
    const { status = 200, headers: more = {}, body = {} } = given ?? { status: 404 };
    response.writeHead(status, more);
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  try {
    await during(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, sent);
  } finally {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  }
}

/**
 * A deployment of the local model that admits everybody, as often as they come: what a service that was restored from a
 * backup, or that lies, does. `changes` are its other lies, by path.
 */
export function admitting(form: "regressions" | "counts" | "score" | "kinds" | "factors", changes: Record<string, Json> = {}) {
  const { model, billboard } = deploymentOf(form);
  const published: Record<string, Json> = {
    "/v1/status": { trust: "local" },
    "/v1/model": model,
    "/v1/round": { reference: billboard.version },
    [`/v1/billboards/${billboard.version}`]: billboard,
  };
  return ({ method, path, body }: Sent): Answer => {
    const change = changes[path] ?? changes[path.split("/").at(-1)!];
    if (change !== undefined) return change as Answer;
    if (method === "GET") return path in published ? { body: published[path] } : null;
    const content = JSON.parse(body);
    if (path === "/v1/episodes") {
      return {
        status: 201,
        body: {
          episode: content.episode, token: "a token", version: billboard.version, trust: "local", learning: true,
          reason: null, horizon: 3, round: 0, place: 0, reference: billboard.version,
        },
      };
    }
    return { body: { episode: path.split("/")[3], status: "counted", version: billboard.version } };
  };
}
