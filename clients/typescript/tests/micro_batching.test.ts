// SPDX-License-Identifier: Apache-2.0
/** Requests grouped: each gets what it would have got alone. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, MemoryStore, ServiceError } from "../src/index.js";
import { MicroBatcher } from "../src/micro_batching.js";
import { type Answer, type Sent, admitting, serving } from "./scripted_service.js";

type Content = Record<string, unknown>;

/** The scripted deployment, which takes groups too, through its own single answers. */
function withGroups(single: (sent: Sent) => Answer): (sent: Sent) => Answer {
  return (sent) => {
    const kind = /^\/v1\/groups\/(episodes|reports)$/.exec(sent.path)?.[1];
    if (kind === undefined) return single(sent);
    const [field, answered] = kind === "episodes" ? ["users", "opened"] : ["reports", "receipts"];
    const members = JSON.parse(sent.body)[field] as Content[];
    const each = members.map((one) => {
      const path = kind === "episodes" ? "/v1/episodes" : `/v1/episodes/${one["episode"]}/report`;
      return (single({ ...sent, path, body: JSON.stringify(one) }) as { body: unknown }).body;
    });
    return { body: { [answered]: each } };
  };
}

async function play(client: Client, user: string): Promise<string> {
  const episode = await client.play(user, async (playing) => {
    for (let step = 0; step < playing.horizon; step++) {
      await playing.act(0);
      playing.observe(0.5, 0);
    }
  });
  return episode.status;
}

test("users who come within a moment share two requests", async () => {
  await serving(withGroups(admitting("score")), async (url, sent) => {
    const client = new Client(url, "key", { store: new MemoryStore(), microBatching: { seconds: 0.2, most: 5 } });
    const users = Array.from({ length: 10 }, (_, number) => `user ${number}`);
    const played = await Promise.all(users.map((user) => play(client, user)));
    assert.deepEqual(new Set(played), new Set(["counted"]));
    const posted = sent.filter(({ method }) => method === "POST").map(({ path }) => path);
    assert.deepEqual(posted.filter((path) => path.endsWith("/episodes")), Array(2).fill("/v1/groups/episodes"));
    assert.ok(posted.length <= 6, String(posted));
    const named = sent.flatMap(({ path, body }) =>
      path === "/v1/groups/episodes" ? (JSON.parse(body).users as Content[]).map((one) => one["user"]) : []);
    assert.deepEqual(named.sort(), users.sort());
  });
});

test("a group that is refused as a whole is sent one by one", async () => {
  await serving(admitting("score"), async (url, sent) => {
    const known = (path: string) => sent.filter((one) => one.path === path).length;
    const client = new Client(url, "key", { store: new MemoryStore(), microBatching: { seconds: 0.05 } });
    await Promise.all(["ann", "bob", "cleo"].map((user) => client.open(user, "0".repeat(32)).catch(() => null)));
    assert.ok(known("/v1/groups/episodes") >= 1);
    assert.equal(known("/v1/episodes"), 3);
  });
});

test("a device with a ticket makes one request, and its budget holds for tickets too", async () => {
  await serving(withGroups(admitting("score")), async (url, sent) => {
    const backend = new Client(url, "key", { store: new MemoryStore() });
    const tickets = await backend.admit(["ann", "bob", "ann"]);
    const device = new Client(url, "key", { store: new MemoryStore() });
    const statuses = [];
    for (const ticket of tickets) {
      assert.ok(!(ticket instanceof ServiceError));
      const episode = await device.begin(JSON.parse(JSON.stringify(ticket)));
      for (let step = 0; step < episode.horizon; step++) {
        await episode.act(0);
        episode.observe(0.5, 0);
      }
      await episode.submit();
      statuses.push(episode.status);
    }
    assert.deepEqual(statuses, ["counted", "counted", "served"]);
    const posted = sent.filter(({ method }) => method === "POST").map(({ path }) => path.split("/").at(-1));
    assert.deepEqual(posted, ["episodes", "report", "report"]);
  });
});

/** Three members of one group, asked of a service that answers as `script` says. */
async function asked(script: (users: Content[]) => unknown): Promise<PromiseSettledResult<Content>[]> {
  const post = async (_: string, content: Content) => ({ opened: script(content["users"] as Content[]) });
  const batcher = new MicroBatcher({ post } as never, { seconds: 1, most: 3 });
  return Promise.allSettled([0, 1, 2].map((n) => batcher.ask("open", { user: n }, async () => ({ alone: n }))));
}

const value = (one: PromiseSettledResult<Content>) => (one.status === "fulfilled" ? one.value : one.reason);

test("members are independent: one comes again alone, one is refused alone", async () => {
  const found = await asked((users) => users.map(({ user }) =>
    user === 0 ? { user } : { type: "urn:reticent:problem:x", status: user === 1 ? 503 : 409, title: "x" }));
  assert.deepEqual([value(found[0]!), value(found[1]!)], [{ user: 0 }, { alone: 1 }]);
  assert.ok(value(found[2]!) instanceof ServiceError);
});

test("strange answers to a group are not believed", async () => {
  for (const strange of [null, undefined, [], [{}], ["a", "b", "c"], "text"]) {
    assert.deepEqual((await asked(() => strange)).map(value), [{ alone: 0 }, { alone: 1 }, { alone: 2 }]);
  }
});

test("a request leaves at the tick after it was made, however many others are made", async () => {
  for (const [before, after] of [[[], []], [[0.35], []], [[], [0.45]], [[0.35], [0.45, 0.45]]]) {
    let now = 10;
    const left: [number, unknown][] = [];
    const post = async (_: string, content: Content) => {
      const users = content["users"] as Content[];
      left.push(...users.map(({ user }): [number, unknown] => [now, user]));
      return { opened: users.map(() => ({})) };
    };
    const batcher = new MicroBatcher({ post } as never, { seconds: 0.2, most: 2 }, () => now);
    const asked = [...before!.map((at) => [at, "u"] as const), [0.42, "v"] as const, ...after!.map((at) => [at, "u"] as const)]
      .map(([at, user]) => {
        now = 10 + at;
        const alone = async () => { left.push([now, user]); return {}; };
        return batcher.ask("open", { user }, alone);
      });
    now = 10.6; // all timers were set by now, and none has run
    await Promise.all(asked);
    assert.deepEqual(left.filter(([, user]) => user === "v"), [[10.6, "v"]]);
  }
});

test("a full group waits for its tick like any other", async () => {
  const began = performance.now();
  let left = Infinity;
  const post = async (_: string, content: Content) => {
    left = performance.now() - began;
    return { opened: (content["users"] as Content[]).map(() => ({})) };
  };
  const batcher = new MicroBatcher({ post } as never, { seconds: 0.3, most: 2 });
  await Promise.all(["u", "v"].map((user) => batcher.ask("open", { user }, async () => ({}))));
  assert.ok(left >= 299, String(left));
});

test("micro-batching is bounded in time and number", () => {
  for (const microBatching of [{ seconds: -1 }, { seconds: 2 }, { most: 1 }, { most: 257 }, { most: 2.5 }]) {
    assert.throws(() => new Client("http://localhost:1", null, { microBatching }), /microBatching/);
  }
});
