// SPDX-License-Identifier: Apache-2.0
/** What a hostile service may publish, what a device does by it, and exactly what leaves in every trust model. */

import assert from "node:assert/strict";
import { test } from "node:test";

import "./only_secure_entropy.js";
import { Client, type ClientOptions, type Episode, MemoryStore } from "../src/index.js";
import { Billboard, InvalidInput, Model, readFloats, toJson } from "../src/wire/index.js";
import { type Sent, admitting, serving } from "./scripted_service.js";
import { type Json, casesOf, deploymentOf } from "./vectors.js";

const scalar = (value: number) => toJson({ shape: [], data: Float64Array.of(value) });

/** A billboard of the form score whose explorers, the first two places, never act as its greedy policy does. */
function divided(changes: Json = {}, report: Json = {}): Json {
  const { billboard } = deploymentOf("score");
  const policy = toJson({ shape: [3, 4], data: Int32Array.from({ length: 12 }, (_, i) => i % 2) });
  const curious = toJson({ shape: [3, 4], data: Float64Array.from({ length: 12 }, (_, i) => 1 - (i % 2)) });
  const parts = { ...billboard.report, curious, explorers: scalar(2), at_random: scalar(0), ...report };
  return { ...billboard, policy, report: parts, ...changes };
}

function opened(changes: Json): Json {
  const body = {
    episode: "e", token: "a token", version: 5, trust: "local", learning: true, reason: null, horizon: 3, round: 0,
    place: 0, reference: 5, ...changes,
  };
  return { status: 201, body };
}

function client(url: string, options: ClientOptions = {}): Client {
  return new Client(url, "key", { store: new MemoryStore(), ...options });
}

const through = (...states: number[]) => async (episode: Episode): Promise<void> => {
  for (let step = 0; step < 3; step++) {
    await episode.act(states[step]!);
    episode.observe(0.5, states[step + 1]!);
  }
};

test("every array that a user may be served by is checked when it is read, wherever the wrong entry is", async () => {
  const cases: Json[] = [];
  for (let entry = 0; entry < 12; entry++) {
    for (const wrong of [NaN, 99, -1, 0.5, Infinity]) {
      const curious = Float64Array.from({ length: 12 }, (_, i) => (i === entry ? wrong : 0));
      cases.push(divided({}, { curious: toJson({ shape: [3, 4], data: curious }) }));
    }
  }
  for (const wrong of [NaN, -1, 0.5, Infinity]) cases.push(divided({}, { explorers: scalar(wrong) }));
  for (const wrong of [NaN, -1, 0.5, 2]) cases.push(divided({}, { at_random: scalar(wrong) }));
  cases.push(divided({}, { curious: toJson({ shape: [12], data: new Float64Array(12) }) }));
  cases.push(divided({}, { curious: undefined }));
  const chances = { method: "policy-optimization", form: null };
  for (const wrong of [NaN, 2, -0.5, 0.9]) {
    const data = Float64Array.from({ length: 24 }, (_, i) => (i === 23 ? wrong : 0.5));
    cases.push(divided({ ...chances, policy: toJson({ shape: [3, 4, 2], data }) }));
  }
  for (const board of cases) assert.throws(() => Billboard.read(board), InvalidInput);
  Billboard.read(divided());
  const fair = toJson({ shape: [3, 4, 2], data: new Float64Array(24).fill(0.5) });
  Billboard.read(divided({ ...chances, policy: fair }));
});

test("a planted action stops nobody on the way: the episode is refused before the first state", async () => {
  const curious = toJson({ shape: [3, 4], data: Float64Array.from({ length: 12 }, (_, i) => (i === 7 ? 99 : 0)) });
  for (const trust of ["local", "joint"]) {
    const changes = {
      "/v1/billboards/5": { body: divided({}, { curious }) }, "/v1/status": { body: { trust } },
      "/v1/episodes": opened({ trust }),
    };
    await serving(admitting("score", changes), async (url, sent) => {
      let asked = false;
      await assert.rejects(client(url).play("ann", async () => void (asked = true)), /curious is an action that there is not/);
      assert.ok(!asked);
      assert.deepEqual(sent.filter(({ method }) => method === "POST").map(({ path }) => path), ["/v1/episodes"]);
    });
  }
});

test("a device acts and reports by its place, whatever the states are", async () => {
  const board = divided();
  const [known, read] = [Model.read(deploymentOf("score").model), Billboard.read(board)];
  for (const [place, states] of [[0, [3, 2, 3, 3]], [1, [2, 3, 2, 2]], [2, [0, 1, 0, 0]], [3, [1, 0, 1, 1]]] as const) {
    const explores = place < 2;
    const changes = { "/v1/billboards/5": { body: board }, "/v1/episodes": opened({ place }) };
    await serving(admitting("score", changes), async (url) => {
      const episode = await client(url).episode("ann").open();
      const taken: number[] = [];
      for (let step = 0; step < 3; step++) {
        taken.push(await episode.act(states[step]!));
        episode.observe(0.5, states[step + 1]!);
      }
      const wanted = states.slice(0, 3).map((state, step) => {
        const greedy = (step * 4 + state) % 2;
        return explores ? 1 - greedy : greedy;
      });
      assert.deepEqual(taken, wanted);
      assert.equal(episode.probability, 1);
    });
    const seen = { states: [...states], actions: [0, 0, 0], rewards: [0.5, 0.5, 0.5], place };
    const other = { ...seen, place: explores ? 2 : 0 };
    assert.notDeepEqual(known.contribution(read, seen).data, known.contribution(read, other).data);
  }
});

test("a report refers to the round that is open, and says so: under another version it would count as nothing", async () => {
  const later = { ...deploymentOf("score").billboard, version: 6, report: casesOf("score")[4].billboard.report };
  const { model, billboard } = deploymentOf("score");
  const changes = {
    "/v1/round": { body: { reference: 6 } }, "/v1/billboards/6": { body: later }, "/v1/episodes": opened({ reference: 5 }),
  };
  await serving(admitting("score", changes), async (url, sent) => {
    const episode = await client(url).play("ann", through(0, 1, 3, 2));
    assert.deepEqual([episode.version, episode.receipt!.version, episode.receipt!.reference], [5, 5, 6]);
    assert.equal(JSON.parse(sent.at(-1)!.body).reference, 6);
  });
  // The numbers are those of version 6: with little noise, the contribution can be told from that under 5.
  const quiet = readFloats("scale", model.report.noise_scale, model.report.noise_scale.shape);
  const noise_scale = toJson({ shape: quiet.shape, data: quiet.data.map((scale) => scale * 2 ** -10) });
  const bare = { ...model, report: { ...model.report, noise_scale, grid: 2 ** -30 } };
  await serving(admitting("score", { ...changes, "/v1/model": { body: bare } }), async (url, sent) => {
    const taken: number[] = [];
    await client(url).play("ann", async (episode) => {
      for (const [here, there] of [[0, 1], [1, 3], [3, 2]] as const) {
        taken.push(await episode.act(here));
        episode.observe(0.5, there);
      }
    });
    const report = JSON.parse(sent.at(-1)!.body).report;
    const bytes = new DataView(Uint8Array.from(atob(report.data), (c) => c.charCodeAt(0)).buffer);
    const seen = { states: [0, 1, 3, 2], actions: taken, rewards: [0.5, 0.5, 0.5], place: 0 };
    const known = Model.read(bare);
    const distance = (board: Json) => Math.hypot(...known.contribution(Billboard.read(board), seen).data.map(
      (entry, i) => entry - Number(bytes.getBigInt64(8 * i, true)) * 2 ** -30,
    ));
    assert.ok(distance(later) < 0.2 && distance(billboard) > 0.3, `${distance(later)} ${distance(billboard)}`);
  });
});

test("values that are missing are clipped to public ones, and the episode goes on", async () => {
  const changes = { "/v1/status": { body: { trust: "joint" } }, "/v1/episodes": opened({ trust: "joint" }) };
  await serving(admitting("score", changes), async (url, sent) => {
    const episode = await client(url).play("ann", async (playing) => {
      await playing.act(undefined);
      playing.observe(undefined, null);
      await playing.act(NaN);
      playing.observe(NaN, Infinity);
      await playing.act(99);
      playing.observe(Infinity, -1);
    });
    assert.equal(episode.status, "counted");
    const { states, rewards } = JSON.parse(sent.at(-1)!.body);
    assert.deepEqual([states, rewards], [[0, 0, 3, 0], [0, 0, 1]]);
  });
});

test("exactly the documented fields leave the device, in every trust model", async () => {
  const shuffled = { ...deploymentOf("regressions").model };
  shuffled.report = { ...shuffled.report, grid: 2 ** -4, shuffle: casesOf("shuffling")[0].rules };
  const headers = ["accept", "accept-encoding", "accept-language", "authorization", "cache-control", "connection",
    "content-length", "content-type", "host", "pragma", "sec-fetch-mode", "user-agent"];
  const documented: Record<string, string[]> = {
    episodes: ["episode", "user"], report: ["reference", "report", "token"], empty: ["token"],
    trajectory: ["actions", "rewards", "states", "token"], actions: ["state", "step", "token"],
  };
  const play = async (trust: string, options: ClientOptions, leaves = false): Promise<string[]> => {
    const changes: Record<string, Json> = {
      "/v1/status": { body: { trust } }, "/v1/episodes": opened({ trust }), actions: { body: { action: 0, probability: 1 } },
      ...(trust === "shuffle" ? { "/v1/model": { body: shuffled } } : {}),
    };
    const kinds: string[] = [];
    await serving(admitting("regressions", changes), async (url, sent) => {
      const devices = client(url, options);
      await devices.play("ann", leaves ? async (episode) => void (await episode.submitEmpty()) : through(0, 1, 3, 2));
      for (const { method, path, body, headers: given } of sent as Sent[]) {
        if (method === "GET") assert.equal(body, "");
        else {
          const kind = path.split("/").at(-1)!;
          const content = JSON.parse(body);
          assert.deepEqual(Object.keys(content).sort(), documented[kind], path);
          if ("report" in content) assert.deepEqual(Object.keys(content.report).sort(), ["data", "dtype", "shape"]);
          kinds.push(kind);
        }
        assert.ok(!path.includes("?"));
        assert.deepEqual(Object.keys(given).filter((name) => !headers.includes(name)), []);
      }
    });
    return kinds;
  };
  assert.deepEqual(await play("local", {}), ["episodes", "report"]);
  assert.deepEqual(await play("local", {}, true), ["episodes", "report"]);
  assert.deepEqual(await play("joint", {}), ["episodes", "trajectory"]);
  assert.deepEqual(await play("joint", {}, true), ["episodes", "empty"]);
  assert.deepEqual(await play("joint", { act: "server" }), ["episodes", "actions", "actions", "actions", "trajectory"]);
  const handed: unknown[][] = [];
  assert.deepEqual(await play("shuffle", { shuffler: async (...given) => void handed.push(given) }), ["episodes"]);
  assert.deepEqual(handed.map((given) => given.length), [5]); // round, place, ones, messages, restores
});
