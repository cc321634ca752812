// SPDX-License-Identifier: Apache-2.0
/** Requests that may be repeated are; refusals are final; nothing is said in the clear. Against a small HTTP server. */

import assert from "node:assert/strict";
import { test } from "node:test";

import "./only_secure_entropy.js";
import {
  Client, type ClientOptions, Connection, InvalidInput, MemoryStore, ServiceError, Unreachable,
} from "../src/index.js";
import { isLoopback } from "../src/connection.js";
import { type Answer, serving } from "./scripted_service.js";

/** Gives these answers one after another, the last one for ever. */
function inTurn(...answers: Answer[]): () => Answer {
  return () => (answers.length > 1 ? answers.shift()! : answers[0]!);
}

test("what may pass is tried again, and the same bytes are sent", async () => {
  const busy = { status: 503 };
  await serving(inTurn(busy, "lost", busy, { body: { fine: true } }), async (url, sent) => {
    assert.deepEqual(await new Connection(url, "key").post("/v1/x", { a: 1 }), { fine: true });
    const wanted = ["POST", "/v1/x", '{"a":1}'];
    assert.deepEqual(sent.map(({ method, path, body }) => [method, path, body]), Array(4).fill(wanted));
    assert.equal(sent[0]!.headers.authorization, "Bearer key");
    assert.equal(sent[0]!.headers["content-type"], "application/json");
  });
});

test("the service's own pause is kept", async () => {
  await serving(inTurn({ status: 429, headers: { "Retry-After": "1" } }, {}), async (url, sent) => {
    const start = performance.now();
    await new Connection(url, null).get("/v1/x");
    assert.ok(performance.now() - start >= 999);
    assert.equal(sent.length, 2);
    assert.equal(sent[0]!.headers.authorization, undefined);
  });
});

test("a refusal is final and reads well", async () => {
  const problem = {
    type: "urn:reticent:problem:invalid-input", title: "Invalid input", detail: "x is wrong", field: "x", bound: "right",
    remedy: "correct it",
  };
  await serving(() => ({ status: 422, body: problem }), async (url, sent) => {
    await assert.rejects(new Connection(url, null).get("/v1/x"), (refused: ServiceError) => {
      assert.deepEqual([refused.status, refused.problem, refused.field], [422, "invalid-input", "x"]);
      assert.equal(refused.message, "Invalid input: x is wrong; must be right; correct it (HTTP 422)");
      return refused instanceof ServiceError;
    });
    assert.equal(sent.length, 1);
  });
});

test("waiting ends at the deadline", async () => {
  let gone = "";
  await serving(() => ({ status: 503, body: "no json" }), async (url, sent) => {
    gone = url;
    await assert.rejects(new Connection(url, null, { deadline: 0.4 }).get("/v1/x"), /HTTP 503 without an explanation/);
    assert.ok(sent.length > 1);
  });
  await assert.rejects(new Connection(gone, null, { deadline: 0.3 }).get("/v1/x"), (problem: Unreachable) => {
    assert.match(problem.message, /repeating a request is safe/);
    return problem instanceof Unreachable;
  });
});

test("keys do not follow to another address", async () => {
  await serving(() => ({}), async (elsewhere, stolen) => {
    await serving(() => ({ status: 307, headers: { Location: `${elsewhere}/v1/x` } }), async (url) => {
      await assert.rejects(new Connection(url, "key").post("/v1/x", {}), ServiceError);
    });
    assert.equal(stolen.length, 0);
  });
});

test("a page that is no service is said to be none", async () => {
  for (const body of ["<html>", "[]", "null"]) {
    await serving(() => ({ body }), async (url) => {
      await assert.rejects(new Connection(url, null).get("/"), /not a JSON object/);
    });
  }
});

test("keys are not sent in the clear", () => {
  const addresses = [
    "http://example.org", "http://192.0.2.1:8400", "ftp://127.0.0.1", "127.0.0.1:8400", "", "http://[::2]:1",
    "http://127.0.0.1.example.org", "https://example.org/?a=b",
  ];
  for (const url of addresses) assert.throws(() => new Client(url, "key", { store: new MemoryStore() }), /url/, url);
  new Connection("http://service:8400", "key", { plainHttp: true });
  new Connection("https://example.org/path/", "key");
  const hosts = ["localhost", "127.0.0.1", "[::1]", "192.0.2.1", "example.org"];
  assert.deepEqual(hosts.map(isLoopback), [true, true, true, false, false]);
});

test("settings outside their domain are refused, by name", () => {
  const wrong: ClientOptions[] = [
    { act: "cloud" as "server" }, { epsilon: 0 }, { epsilon: Infinity }, { delta: 1 }, { deadline: 0 }, { timeout: -1 },
    { trust: "2050" as "joint" }, { contributions: -1 }, { contributions: 1.5 }, { gap: 0 },
    { shuffler: async () => {}, trust: "local" },
  ];
  for (const options of wrong) {
    const make = () => new Client("http://127.0.0.1:1", "key", { store: new MemoryStore(), ...options });
    assert.throws(make, (refused: InvalidInput) => refused instanceof InvalidInput && refused.field in options);
  }
});
