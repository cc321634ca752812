// SPDX-License-Identifier: Apache-2.0
/** The device's own budget: one report of a user, whatever a service says, and the same bytes whenever it is sent. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";

import "./only_secure_entropy.js";
import { BUDGET_SPENT, BudgetSpent, Client, type Episode, MemoryStore, Unreachable } from "../src/index.js";
import { FileStore, defaultDirectory } from "../src/node.js";
import { type Sent, admitting, serving } from "./scripted_service.js";
import { readFloats, toJson } from "../src/wire/index.js";
import { casesOf, deploymentOf } from "./vectors.js";

const home = await mkdtemp(join(tmpdir(), "budget-"));
after(() => rm(home, { recursive: true }));
let made = 0;
const directory = () => join(home, String(made++));

/** An episode of the small deployment, played to its end. */
async function steps(episode: Episode): Promise<void> {
  for (const [here, there, reward] of [[0, 1, 0.5], [1, 3, 1], [3, 2, 0]] as const) {
    await episode.act(here);
    episode.observe(reward, there);
  }
}

for (const form of ["regressions", "counts", "score"] as const) {
  test(`${form}: a service that admits them twice gets one report`, async () => {
    await serving(admitting(form), async (url, sent) => {
      const reports = () => sent.filter(({ path }) => path.endsWith("/report")).length;
      const place = directory();
      const client = () => new Client(url, "key", { store: new FileStore(place), trust: "local" });
      const first = await client().play("ann", steps);
      assert.deepEqual([first.status, reports()], ["counted", 1]);
      // A new client on the same files, as after a restart; and the service says that they are learned from.
      const second = await client().play("ann", steps);
      assert.deepEqual([second.status, second.learning, second.reason], ["served", false, BUDGET_SPENT]);
      await assert.rejects(second.submission());
      const left = await client().play("ann", async () => {});
      assert.deepEqual([left.status, reports()], ["served", 1]);
      // Other users have budgets of their own.
      assert.equal((await client().play("bob", steps)).status, "counted");
      assert.equal(reports(), 2);
    });
  });
}

test("two episodes of one user at once: one of them reports", async () => {
  await serving(admitting("counts"), async (url, sent) => {
    const client = new Client(url, "key", { store: new FileStore(directory()) });
    const episodes = await Promise.all(Array.from({ length: 5 }, () => client.episode("ann").open()));
    await Promise.all(episodes.map(steps));
    assert.ok(episodes.every((episode) => episode.learning));
    await Promise.all(episodes.map((episode) => episode.submit()));
    assert.deepEqual(episodes.map(({ status }) => status).sort(), ["counted", "served", "served", "served", "served"]);
    assert.equal(sent.filter(({ path }) => path.endsWith("/report")).length, 1);
  });
});

test("what was formed and not acknowledged is sent again as it was, after a restart too", async () => {
  let down = true;
  const honest = admitting("regressions");
  await serving((sent) => (down && sent.path.endsWith("/report") ? "lost" : honest(sent)), async (url, sent) => {
    const place = directory();
    const client = () => new Client(url, "key", { store: new FileStore(place), deadline: 0.3 });
    const id = "0123456789abcdef".repeat(2);
    const episode = await client().episode("ann", id).open();
    await steps(episode);
    await assert.rejects(episode.submit(), Unreachable);
    assert.equal(episode.status, "open");
    // The app restarts. The same episode sends the same bytes, whatever is played now; another one sends nothing.
    const again = await client().episode("ann", id).open();
    await assert.rejects(again.submitEmpty(), Unreachable);
    assert.equal((await client().play("ann", steps)).reason, BUDGET_SPENT);
    down = false;
    assert.deepEqual(await client().resume("ann"), [{ episode: id, status: "counted", version: 5, reference: 5 }]);
    assert.deepEqual(await client().resume("ann"), []);
    assert.equal((await episode.submit())?.status, "counted");
    const bodies = new Set(sent.filter(({ path }) => path.endsWith("/report")).map(({ body }) => body));
    assert.equal(bodies.size, 1);
    // Acknowledged, the bytes are forgotten; that they reported is not.
    const kept = await Promise.all((await readdir(place)).map((name) => readFile(join(place, name), "utf8")));
    assert.equal(kept.length, 1);
    assert.ok(!kept[0]!.includes("token"));
    assert.equal((await client().play("ann", steps)).reason, BUDGET_SPENT);
  });
});

test("what the service will never take is given up, and counts", async () => {
  const expired = { status: 410, body: { title: "expired" } };
  await serving(admitting("counts", { report: expired }), async (url, sent) => {
    const client = new Client(url, "key", { store: new MemoryStore() });
    await assert.rejects(client.play("ann", steps), /expired/);
    assert.deepEqual(await client.resume("ann"), []);
    assert.deepEqual(await client.resume("ann"), []);
    assert.equal(sent.filter(({ path }) => path.endsWith("/report")).length, 2);
    assert.equal((await client.play("ann", steps)).reason, BUDGET_SPENT);
  });
});

test("more contributions are as many as the app says; scopes are the app's too", async () => {
  await serving(admitting("counts"), async (url) => {
    const store = new MemoryStore();
    const twice = new Client(url, "key", { store, contributions: 2 });
    const statuses = [];
    for (let visit = 0; visit < 3; visit++) statuses.push((await twice.play("ann", steps)).status);
    assert.deepEqual(statuses, ["counted", "counted", "served"]);
    assert.equal((await new Client(url, "key", { store }).play("ann", steps)).status, "served");
    assert.equal((await new Client(url, "key", { store, scope: "another study" }).play("ann", steps)).status, "counted");
  });
});

test("raw data are not kept: messages and trajectories take a place, and leave no trace of themselves", async () => {
  const store = new MemoryStore();
  const { budget } = new Client("http://127.0.0.1:1", null, { store });
  await budget.take("ann", { episode: "e", kind: "trajectory", content: { states: [1, 2, 3] } }, 0);
  assert.deepEqual(await budget.pending("ann"), []);
  const again = { episode: "e", kind: "messages", content: { round: 0 } } as const;
  await assert.rejects(budget.take("ann", again, 0), BudgetSpent);
});

test("one claim of many wins, between processes too, and half a file never counts as none", async () => {
  const place = directory();
  const store = new FileStore(place);
  const claims = await Promise.all(Array.from({ length: 20 }, (_, i) => store.claim("key", `mine ${i}`)));
  assert.equal(new Set(claims).size, 1);
  assert.equal(await store.get("key"), claims[0]);
  assert.equal(await store.get("another"), null);
  const script = `import { FileStore } from ${JSON.stringify(new URL("../src/node.js", import.meta.url).href)};
    console.log(await new FileStore(process.argv[1]).claim("shared", String(process.pid)));`;
  const run = promisify(execFile);
  const ran = await Promise.all(
    Array.from({ length: 4 }, () => run(process.execPath, ["--input-type=module", "-e", script, place])),
  );
  assert.equal(new Set(ran.map(({ stdout }) => stdout)).size, 1);
  assert.ok((await readdir(place)).every((name) => name.endsWith(".json")), "nothing is left over");
  // A file that somebody broke still says that a place was taken.
  for (const name of await readdir(place)) await writeFile(join(place, name), "{");
  await serving(admitting("counts"), async (url) => {
    const client = new Client(url, "key", { store: new FileStore(place), scope: "s" });
    await client.play("ann", steps);
    for (const name of await readdir(place)) await writeFile(join(place, name), "{");
    assert.equal((await client.play("ann", steps)).reason, BUDGET_SPENT);
  });
});

test("without a place to write nobody is named, and the remedy is", async () => {
  await serving(admitting("counts"), async (url, sent) => {
    const file = join(home, "a file");
    await writeFile(file, "");
    const client = new Client(url, "key", { store: new FileStore(join(file, "below")) });
    await assert.rejects(client.play("ann", steps), /outlives this process.*give a FileStore/);
    assert.ok(!sent.some(({ method }) => method === "POST"));
  });
});

test("a budget is kept by default: a service that was restored gets no second report", async () => {
  process.env["XDG_STATE_HOME"] = directory();
  try {
    await serving(admitting("counts"), async (url, sent) => {
      const visit = async (user: string) => (await new Client(url, "key", { trust: "local" }).play(user, steps)).status;
      assert.deepEqual([await visit("ann"), await visit("ann"), await visit("bob")], ["counted", "served", "counted"]);
      assert.equal(sent.filter(({ path }) => path.endsWith("/report")).length, 2);
      assert.equal(readdirSync(join(process.env["XDG_STATE_HOME"]!, "reticent", "budget")).length, 2);
    });
    process.env["XDG_STATE_HOME"] = "relative";
    assert.ok(isAbsolute(defaultDirectory()));
  } finally {
    delete process.env["XDG_STATE_HOME"];
  }
});

test("a place is taken on the disk before a report leaves, so that no crash in between gives it back", async () => {
  const place = directory();
  const honest = admitting("score");
  const kept: boolean[] = [];
  const crash = (sent: Sent) => {
    if (!sent.path.endsWith("/report")) return honest(sent);
    // The device goes down here: what is on the disk now is all that it will know.
    const files = existsSync(place) ? readdirSync(place).filter((name) => name.endsWith(".json")) : [];
    const content = files.map((name) => readFileSync(join(place, name), "utf8"));
    kept.push(content.some((one) => one.includes(sent.path.split("/")[3]!) && one.includes(JSON.parse(sent.body).report.data)));
    return "lost" as const;
  };
  await serving(crash, async (url, sent) => {
    const client = () => new Client(url, "key", { store: new FileStore(place), deadline: 0.3 });
    await assert.rejects(client().play("ann", steps), Unreachable);
    assert.ok(kept.length > 0 && kept.every(Boolean));
    const before = sent.filter(({ path }) => path.endsWith("/report"));
    assert.equal(new Set(before.map(({ body }) => body)).size, 1);
    assert.equal((await client().play("ann", steps)).reason, BUDGET_SPENT);
    assert.equal(sent.filter(({ path }) => path.endsWith("/report")).length, before.length);
  });
});

test("what is demanded of ε is demanded of all reports that the budget allows together", async () => {
  const [{ model, delta, epsilon }] = casesOf("promise").filter((one) => one.model?.report.form === "score");
  await serving(admitting("score", { "/v1/model": { body: model } }), async (url, sent) => {
    const client = (contributions: number, demanded: number) =>
      new Client(url, "key", { store: new MemoryStore(), epsilon: demanded, delta, contributions });
    assert.equal((await client(1, epsilon).play("ann", steps)).status, "counted");
    const posts = sent.filter(({ method }) => method === "POST").length;
    await assert.rejects(client(3, epsilon).play("ann", steps), /ε of 3 reports .*asks for less noise/);
    assert.equal(sent.filter(({ method }) => method === "POST").length, posts);
    assert.equal((await client(3, 3 * epsilon).play("ann", steps)).status, "counted");
  });
});

test("a client that outlives a deployment noises by the rules of the next, or not at all", async () => {
  const { model } = deploymentOf("score");
  const [first, second] = [1, 4].map((times) => {
    const scale = readFloats("noise_scale", model.report.noise_scale, model.report.noise_scale.shape);
    const noise_scale = toJson({ shape: scale.shape, data: scale.data.map((one) => times * one) });
    return { ...model, report: { ...model.report, noise_scale, digest: `rules ${times}` } };
  });
  for (const stale of [false, true]) {
    let now = first;
    const answer = (sent: Sent) => {
      const given = admitting("score", { "/v1/model": { body: stale ? first : now } })(sent);
      if (sent.path !== "/v1/episodes" || given === null || given === "lost") return given;
      return { ...given, body: { ...(given.body as object), rules: now.report.digest } };
    };
    await serving(answer, async (url, sent) => {
      const client = new Client(url, "key", { store: new MemoryStore() });
      assert.equal((await client.play("ann", steps)).status, "counted");
      now = second;
      if (stale) await assert.rejects(client.play("bob", steps), /another deployment's model/);
      else assert.equal((await client.play("bob", steps)).status, "counted");
      assert.equal((await client.model()).rules.digest, stale ? "rules 1" : "rules 4");
      assert.equal(sent.filter(({ path }) => path === "/v1/model").length, 2);
      assert.equal(sent.filter(({ path }) => path.startsWith("/v1/billboards/")).length, stale ? 1 : 2);
      assert.equal(sent.filter(({ path }) => path.endsWith("/report")).length, stale ? 1 : 2);
    });
  }
});

test("a pattern of rounds is kept, by what the service says of them", async () => {
  let round = 0;
  const honest = admitting("counts");
  const rounds = (sent: Sent) => {
    const given = honest(sent);
    if (sent.path !== "/v1/episodes" || given === null || given === "lost") return given;
    return { ...given, body: { ...(given.body as object), round } };
  };
  await serving(rounds, async (url) => {
    const client = new Client(url, "key", { store: new MemoryStore(), contributions: 3, perRound: 1, gap: 2 });
    const statuses = [];
    for (round of [0, 0, 1, 2, 4, 9]) statuses.push((await client.play("ann", steps)).status);
    assert.deepEqual(statuses, ["counted", "served", "served", "counted", "counted", "served"]);
    for (const wrong of [{ contributions: -1 }, { perRound: -1 }, { gap: 0 }, { gap: 1.5 }]) {
      assert.throws(() => new Client(url, "key", { store: new MemoryStore(), ...wrong }), /an integer ≥/);
    }
  });
});
