// SPDX-License-Identifier: Apache-2.0
/** A device that acts on a belief about its own user, and what it remembers between visits. */

import assert from "node:assert/strict";
import { test } from "node:test";

import "./only_secure_entropy.js";
import { BeliefMemory } from "../src/belief_memory.js";
import { MemoryStore } from "../src/budget.js";
import { Client } from "../src/client.js";
import type { Episode } from "../src/episode.js";
import { StayMemory } from "../src/stays.js";
import { Billboard, Model, requireBelief } from "../src/wire/index.js";
import { type Answer, type Sent, admitting, serving } from "./scripted_service.js";
import { type Json, casesOf, deploymentOf } from "./vectors.js";

const { billboard, model } = deploymentOf("kinds");
const shares = [...Billboard.read(billboard).part("shares").data];

function near(found: Float64Array | null, wanted: ArrayLike<number>): void {
  assert.ok(found !== null);
  found.forEach((entry, place) => assert.ok(Math.abs(entry - wanted[place]!) < 1e-12));
}

async function visit(client: Client, rewards = [1, 0, 1]): Promise<Float64Array> {
  const episode = await client.episode("ann").open();
  const before = episode.belief!;
  for (const [step, reward] of rewards.entries()) {
    await episode.act(step);
    episode.observe(reward, step + 1);
  }
  await episode.submit();
  assert.equal(episode.belief, null); // forgotten with the rest
  return before;
}

test("a returning user's belief goes on, is seen, is erased, and is not sent", async () => {
  const memory = new BeliefMemory(new MemoryStore());
  await serving(admitting("kinds"), async (url: string, sent: Sent[]) => {
    const client = new Client(url, "key", { trust: "local", store: new MemoryStore(), memory });
    near(await visit(client), shares);
    const kept = await memory.show("ann");
    assert.equal(kept!.likelihoods.length, shares.length);
    const second = await visit(client); // served without a report: the budget is spent
    assert.ok(second.some((entry, place) => Math.abs(entry - shares[place]!) > 1e-3));
    assert.notDeepEqual(await memory.show("ann"), kept);
    const posted = sent.filter((one) => one.method === "POST").map((one) => Object.keys(JSON.parse(one.body)).sort().join());
    assert.deepEqual([...new Set(posted)].sort(), ["episode,user", "reference,report,token"]);
    assert.ok(!sent.some((one) => one.body.includes(String(kept!.likelihoods[0]))));
    await memory.erase("ann");
    assert.equal(await memory.show("ann"), null);
    near(await visit(client), shares);
    const forgetful = new Client(url, "key", { trust: "local", store: new MemoryStore() });
    near(await visit(forgetful), shares);
    near(await visit(forgetful), shares);
  });
});

test("memory of another model is not used", async () => {
  const memory = new BeliefMemory(new MemoryStore());
  assert.equal(await memory.recall("ann", "another digest"), null);
  await memory.keep("ann", "another digest", Float64Array.from(shares));
  assert.deepEqual([...(await memory.recall("ann", "another digest"))!], shares);
  assert.equal(await memory.recall("ann", model.digest), null);
});

test("what a user erases in the middle of a visit does not come back", async () => {
  const memory = new BeliefMemory(new MemoryStore());
  await serving(admitting("kinds"), async (url: string) => {
    const client = new Client(url, "key", { trust: "local", store: new MemoryStore(), memory });
    for (const earlier of [0, 1]) {
      for (let number = 0; number < earlier; number++) await visit(client);
      const episode = await client.episode("ann").open();
      await oneVisit(episode);
      await memory.erase("ann");
      await episode.submit();
      assert.equal(await memory.show("ann"), null);
      near(await visit(client), shares);
      await memory.erase("ann");
    }
  });
});

test("the server is not asked for actions, and users are not named to it for that", async () => {
  const status = { body: { trust: "joint", device_acts: true } };
  await serving(admitting("kinds", { "/v1/status": status }), async (url: string, sent: Sent[]) => {
    const asking = new Client(url, "key", { act: "server" });
    await assert.rejects(asking.episode("ann").open(), /device where users act on a belief/);
    assert.ok(sent.every((one) => one.method === "GET"));
    assert.throws(() => Billboard.read(billboard).choose(0, 0, 0), /act: 'device'/);
  });
});

test("a billboard that would fail in the middle of an episode is refused before", () => {
  const [known, board] = [Model.read(casesOf("kinds")[0].model), Billboard.read(billboard)];
  requireBelief(known, board);
  for (const [name, wrong] of [["shares", NaN], ["shares", -1], ["blend", 0], ["blend_table", Infinity]] as const) {
    const spoiled = Billboard.read(billboard);
    spoiled.part(name).data.fill(wrong);
    assert.throws(() => requireBelief(known, spoiled), new RegExp(name));
  }
});

test("a plan over beliefs that would fail in the middle of an episode is refused before", () => {
  const planned = deploymentOf("kinds_planned");
  const known = Model.read(planned.model);
  requireBelief(known, Billboard.read(planned.billboard));
  for (const [name, wrong] of [["vectors", NaN], ["choices", 0.5], ["choices", 2], ["choices", -1]] as const) {
    const spoiled = Billboard.read(planned.billboard);
    spoiled.part(name).data[7] = wrong;
    assert.throws(() => requireBelief(known, spoiled), new RegExp(name));
  }
  const { vectors, ...missing } = planned.billboard.report;
  assert.throws(() => requireBelief(known, Billboard.read({ ...planned.billboard, report: missing })), /vectors/);
  for (const shape of [[3, 4, 4, 4], [3, 4, 0, 4]]) {
    const data = Buffer.alloc(8 * shape.reduce((product, size) => product * size, 1)).toString("base64");
    const report = { ...planned.billboard.report, vectors: { dtype: "<f8", shape, data } };
    assert.throws(() => requireBelief(known, Billboard.read({ ...planned.billboard, report })), /choices/);
  }
  assert.equal(vectors.shape.length, 4);
});

test("users who act by the policy alone report a whole stay too: nothing between visits, and the same in every visit", async () => {
  const { model: once, billboard: served } = deploymentOf("score");
  const body = { ...once, report: { ...once.report, visits: VISITS } };
  for (const trust of ["local", "joint"] as const) {
    const stays = new StayMemory(new MemoryStore());
    const changes = { "/v1/model": { body }, "/v1/status": { body: { trust, device_acts: true } } };
    const base = admitting("score", changes);
    const answer = (sent: Sent) => {
      const given = base(sent);
      if (sent.path !== "/v1/episodes" || given === null || given === "lost") return given;
      return { ...given, body: { ...(given.body as object), trust, place: 0 } };
    };
    await serving(answer, async (url: string, sent: Sent[]) => {
      const taken: number[][] = [];
      for (let number = 0; number < VISITS; number++) {
        const client = new Client(url, "key", { trust, store: new MemoryStore(), stays });
        const before = sent.filter(({ method }) => method === "POST").length;
        const last = await client.play("ann", async (episode) => {
          assert.deepEqual([episode.visits, episode.visit, episode.belief], [VISITS, number, null]);
          taken.push([]);
          for (const [step, reward] of [1, 0, 1].entries()) {
            taken.at(-1)!.push(await episode.act(step));
            episode.observe(reward, step + 1);
          }
        });
        const after = sent.filter(({ method }) => method === "POST").length;
        assert.equal(after - before, 1); // the admission, then the report of both
        assert.equal(last.status, number < VISITS - 1 ? "open" : "counted");
      }
      const board = Billboard.read(served);
      assert.deepEqual(taken[0], [0, 1, 2].map((step) => board.choose(step, step, 0, 0.5)));
      assert.deepEqual(taken[1], taken[0]); // an explorer explores at every visit, by the policy of its steps
    });
  }
});

const VISITS = 2;
const stayModel = { ...model, report: { ...model.report, visits: VISITS } };

/** One visit of a stay in a process of its own. */
function process(url: string, stays: StayMemory): Client {
  return new Client(url, "key", { trust: "local", store: new MemoryStore(), stays });
}

async function oneVisit(episode: Episode): Promise<void> {
  for (const [step, reward] of [1, 0, 1].entries()) {
    await episode.act(step);
    episode.observe(reward, step + 1);
  }
}

test("visits of a stay go on from one another in processes of their own, and are reported once", async () => {
  const stays = new StayMemory(new MemoryStore());
  await serving(admitting("kinds", { "/v1/model": { body: stayModel } }), async (url: string, sent: Sent[]) => {
    const first = await process(url, stays).play("ann", oneVisit);
    assert.equal(first.status, "open");
    assert.equal(first.visits, VISITS);
    const after = first.belief!;
    assert.deepEqual((await stays.show("ann"))!.states, [0, 1, 2, 3]);
    assert.equal(sent.filter((one) => one.method === "POST").length, 1); // the admission alone
    const resumed = await process(url, stays).resumeStay("ann");
    near(resumed!.belief, after);
    // Beginning its ticket again goes on with it too, and throws no visit away.
    const begun = await process(url, stays).begin({ user: "ann", opened: (await stays.show("ann"))!.opened });
    near(begun.belief, after);
    assert.deepEqual((await stays.show("ann"))!.states, [0, 1, 2, 3]);
    // A visit that is broken off is not kept.
    await assert.rejects(process(url, stays).play("ann", async (episode) => {
      await episode.act(3);
      throw new Error("the app fails");
    }), /the app fails/);
    const last = await process(url, stays).play("ann", oneVisit);
    assert.equal(last.status, "counted");
    assert.equal(await stays.show("ann"), null);
    assert.deepEqual(sent.filter((one) => one.method === "POST").map((one) => one.path.split("/").at(-1)), ["episodes", "report"]);
  });
});

test("after a crash no second report of a stay leaves the device", async () => {
  const stays = new StayMemory(new MemoryStore());
  await serving(admitting("kinds", { "/v1/model": { body: stayModel } }), async (url: string, sent: Sent[]) => {
    await process(url, stays).play("ann", oneVisit);
    const client = process(url, stays);
    client.send = () => Promise.reject(new Error("power failure"));
    await assert.rejects(client.play("ann", oneVisit), /power failure/);
    assert.equal(await process(url, stays).resumeStay("ann"), null);
    assert.ok(!sent.some((one) => one.path.endsWith("report")));
  });
});

/** A deployment of stays whose admissions say `opened` besides. */
function admittingStays(opened: Record<string, unknown>, changes: Record<string, Json> = {}): (sent: Sent) => Answer {
  const base = admitting("kinds", { "/v1/model": { body: stayModel }, ...changes });
  return (sent) => {
    const given = base(sent);
    if (sent.path !== "/v1/episodes" || given === null || given === "lost") return given;
    return { ...given, body: { ...(given.body as object), ...opened } };
  };
}

const reports = (sent: Sent[]) => sent.filter(({ method, path }) => method === "POST" && path !== "/v1/episodes").length;

test("a stay whose ticket has expired is not reported, which is said, and the user is served on", async () => {
  for (const [seconds, expired] of [[-1, true], [-1e300, true], [3600, false], [1e300, false]] as const) {
    const stays = new StayMemory(new MemoryStore());
    const until = Date.now() / 1000 + seconds;
    await serving(admittingStays({ expires_at: until }), async (url, sent) => {
      const first = await process(url, stays).play("ann", oneVisit);
      const last = await process(url, stays).play("ann", oneVisit);
      for (const episode of [first, last]) {
        assert.equal(episode.reason, expired ? "ticket-expired" : null);
        if (expired) assert.match(episode.note!, /expired at (20|1970).*nothing of it is reported.*`ticket_lifetime`/);
        else assert.equal(episode.note, null);
      }
      assert.equal(last.status, expired ? "served" : "counted");
      assert.equal(reports(sent), expired ? 0 : 1);
      assert.equal(await stays.show("ann"), null);
    });
  }
});

test("a ticket that expires while its stay is open is not reported either", async () => {
  const stays = new StayMemory(new MemoryStore());
  const until = Date.now() / 1000 + 0.3;
  await serving(admittingStays({ expires_at: until }), async (url, sent) => {
    const episode = await process(url, stays).episode("ann").open();
    await oneVisit(episode);
    await oneVisit(episode);
    assert.equal(episode.learning, true);
    while (Date.now() / 1000 <= until) await new Promise((later) => setTimeout(later, 20));
    await episode.submit();
    assert.deepEqual([episode.status, episode.reason, reports(sent)], ["served", "ticket-expired", 0]);
  });
});

test("a stay that the service waits for no longer is kept no longer, and not sent again", async () => {
  for (const [problem, gone] of [["episode-expired", true], ["round-over", true], ["unavailable", false]] as const) {
    const stays = new StayMemory(new MemoryStore());
    const refusal = { status: 410, body: { type: `urn:reticent:problem:${problem}`, title: "refused" } };
    const changes = { "/v1/status": { body: { trust: "joint" } }, trajectory: refusal };
    await serving(admittingStays({ trust: "joint" }, changes), async (url, sent) => {
      const client = () => new Client(url, "key", { store: new MemoryStore(), stays });
      await client().play("ann", oneVisit);
      const last = (await client().resumeStay("ann"))!;
      await oneVisit(last);
      await last.keepVisits();
      await assert.rejects(last.submit(), /refused/);
      assert.equal(reports(sent), 1);
      assert.equal((await stays.show("ann")) === null, gone);
      assert.equal(/kept on this device no longer/.test(last.note ?? ""), gone);
    });
  }
});

test("a stay that its user erases is not reported by a page that has it open, and does not come back", async () => {
  for (const trust of ["joint", "local"] as const) {
    const stays = new StayMemory(new MemoryStore());
    const answer = admittingStays({ trust }, { "/v1/status": { body: { trust } } });
    await serving(answer, async (url, sent) => {
      const client = new Client(url, "key", { trust, store: new MemoryStore(), stays });
      const episode = await client.episode("ann").open();
      await oneVisit(episode);
      await episode.keepVisits();
      assert.notEqual(await stays.show("ann"), null);
      await stays.erase("ann");
      await oneVisit(episode);
      await episode.keepVisits();
      assert.equal(await stays.show("ann"), null);
      assert.equal(await episode.submit(), null);
      assert.deepEqual([episode.status, episode.reason, reports(sent)], ["served", "stay-not-kept", 0]);
    });
  }
});

test("a stay that is erased while another page writes one more visit does not come back", async () => {
  const store = new MemoryStore();
  const stays = new StayMemory(store);
  await serving(admittingStays({}), async (url, sent) => {
    for (const moment of ["before", "after"]) {
      const client = process(url, stays);
      const episode = await client.episode("ann").open();
      await oneVisit(episode);
      const put = store.put.bind(store);
      store.put = async (key, value) => {
        store.put = put;
        if (moment === "before") await stays.erase("ann");
        await put(key, value);
        if (moment === "after") await stays.erase("ann");
      };
      await episode.keepVisits();
      assert.equal(await stays.show("ann"), null);
      await oneVisit(episode);
      assert.equal(await episode.submit(), null);
      assert.deepEqual([episode.reason, reports(sent)], ["stay-not-kept", 0]);
    }
  });
});

test("of several pages that have one stay open, one reports it, whatever their budgets say", async () => {
  const stays = new StayMemory(new MemoryStore());
  await serving(admittingStays({}), async (url, sent) => {
    await process(url, stays).play("ann", oneVisit);
    const pages = await Promise.all([0, 1, 2].map(() => process(url, stays).resumeStay("ann")));
    for (const page of pages) {
      await oneVisit(page!);
      await page!.keepVisits();
    }
    await Promise.all(pages.map((page) => page!.submit()));
    assert.deepEqual(pages.map((page) => page!.status).sort(), ["counted", "served", "served"]);
    assert.equal(reports(sent), 1);
    assert.equal(await stays.recall("ann"), null);
    // Nor after a crash between the act of taking it and its erasure.
    const opened = JSON.parse(JSON.stringify({ episode: pages[0]!.id }));
    await stays.keep("ann", { opened, states: [0], actions: [], rewards: [] });
    assert.equal(await stays.recall("ann"), null);
    assert.equal(await stays.show("ann"), null);
  });
});

test("a joint stay that could not be sent is sent again after a restart, the same, and counts one place", async () => {
  const [stays, store] = [new StayMemory(new MemoryStore()), new MemoryStore()];
  let away = true;
  const base = admittingStays({ trust: "joint" }, { "/v1/status": { body: { trust: "joint" } } });
  const answer = (sent: Sent) => (away && sent.path.endsWith("/trajectory") ? ({ status: 400 } as Answer) : base(sent));
  await serving(answer, async (url, sent) => {
    const client = () => new Client(url, "key", { store, stays });
    await client().play("ann", oneVisit);
    await assert.rejects(client().play("ann", oneVisit));
    away = false;
    const resumed = (await client().resumeStay("ann"))!;
    assert.deepEqual([resumed.complete, resumed.learning], [true, true]);
    await resumed.submit();
    assert.equal(resumed.status, "counted");
    const bodies = sent.filter(({ path }) => path.endsWith("/trajectory")).map(({ body }) => body);
    assert.equal(bodies.length, 2);
    assert.equal(bodies[0], bodies[1]);
    assert.equal(await stays.show("ann"), null);
    const next = await client().episode("ann").open(); // and no other report of theirs leaves this device
    assert.deepEqual([next.learning, next.reason], [false, "device-budget-spent"]);
  });
});

test("an outage at the end of a stay loses nothing of it, though the app is closed meanwhile", async () => {
  const stays = new StayMemory(new MemoryStore());
  let away = false;
  const base = admittingStays({});
  const answer = (sent: Sent) => (away && sent.path === "/v1/round" ? ({ status: 400 } as Answer) : base(sent));
  await serving(answer, async (url, sent) => {
    await process(url, stays).play("ann", oneVisit);
    away = true;
    await assert.rejects(process(url, stays).play("ann", oneVisit));
    away = false;
    const resumed = (await process(url, stays).resumeStay("ann"))!;
    assert.equal(resumed.complete, true);
    await resumed.submit();
    assert.deepEqual([resumed.status, reports(sent)], ["counted", 1]);
  });
});

test("stays of a form that knows none, and numbers of visits that are none, are refused", () => {
  assert.equal(Model.read(stayModel).rules.visits, VISITS);
  for (const visits of [0, -1, 1.5, "3", true, 10 ** 6]) {
    assert.throws(() => Model.read({ ...model, report: { ...model.report, visits } }), /visits/);
  }
  for (const form of ["factors", "kinds_planned", "counts"] as const) {
    const other = deploymentOf(form).model;
    assert.throws(() => Model.read({ ...other, report: { ...other.report, visits: 2 } }), /visits/);
  }
  const score = deploymentOf("score").model;
  assert.equal(Model.read({ ...score, report: { ...score.report, visits: 2 } }).rules.visits, 2);
});
