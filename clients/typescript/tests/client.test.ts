// SPDX-License-Identifier: Apache-2.0
/** A device that trusts nobody: what a service must be before a user is named to it, and what leaves the device. */

import assert from "node:assert/strict";
import { test } from "node:test";

import "./only_secure_entropy.js";
import {
  Client, type ClientOptions, Connection, type Episode, InvalidInput, MemoryStore, Shuffler,
} from "../src/index.js";
import { Clipped } from "../src/boundary.js";
import { formMessages } from "../src/messages.js";
import { type Integers, Billboard, Model, ShuffleRules, readIntegers, toJson } from "../src/wire/index.js";
import { squaresFit } from "./laws.js";
import { type Sent, admitting, serving } from "./scripted_service.js";
import { type Json, casesOf, deploymentOf } from "./vectors.js";

function client(url: string, options: ClientOptions = {}): Client {
  return new Client(url, "key", { store: new MemoryStore(), ...options });
}

async function steps(episode: Episode): Promise<void> {
  for (const [here, there, reward] of [[0, 1, 0.5], [1, 3, 1], [3, 2, 0]] as const) {
    await episode.act(here);
    episode.observe(reward, there);
  }
}

const named = (sent: Sent[]) => sent.some(({ body }) => body.includes("ann"));

test("a service that is not what was demanded is told no name", async () => {
  const refusals: [ClientOptions, Record<string, Json>, RegExp][] = [
    [{ trust: "local" }, { "/v1/status": { body: { trust: "joint" } } }, /as demanded/],
    [{}, { "/v1/status": { body: { trust: "2050" } } }, /use a newer client/],
    [{}, { "/v1/status": { body: { trust: "shuffle" } } }, /shuffler is missing/],
    [{ act: "server" }, {}, /would show every state/],
    [{ epsilon: 0.01 }, {}, /asks for less noise/],
  ];
  for (const [options, changes, message] of refusals) {
    await serving(admitting("score", changes), async (url, sent) => {
      await assert.rejects(client(url, options).play("ann", steps), message);
      assert.ok(!named(sent));
    });
  }
});

test("states and actions are called by their names, and a label that there is not is not repeated", async () => {
  const body = { states: ["tired", "fresh"], actions: ["rest", "nudge"] };
  await serving(admitting("score", { "/v1/names": { body } }), async (url, sent) => {
    const asked = client(url);
    const names = await asked.names();
    assert.deepEqual([names.stateOf("fresh"), names.state(0), names.action(1)], [1, "tired", "nudge"]);
    assert.equal(await asked.names(), names);
    assert.equal(sent.length, 1);
    assert.throws(
      () => names.stateOf("hungry"),
      (problem: Error) => problem instanceof InvalidInput && /tired, fresh/.test(problem.message) && !/hungry/.test(problem.message),
    );
    assert.throws(() => names.action(2), /from 0 to 1/);
  });
  await serving(admitting("score", { "/v1/names": { body: { states: null, actions: null } } }), async (url) => {
    const names = await client(url).names();
    assert.equal(names.action(2), "action 2");
    assert.throws(() => names.stateOf("fresh"), /the model has no names/);
  });
  await serving(admitting("score", { "/v1/names": { body: { states: "tired", actions: null } } }), async (url) => {
    await assert.rejects(client(url).names(), /names.states is something else/);
  });
});

test("a service that changes its mind gets nothing", async () => {
  const opened = {
    episode: "e", token: "t", version: 5, trust: "joint", learning: true, reason: null, horizon: 3, round: 0, place: 0,
  };
  const { billboard } = deploymentOf("score");
  const another = { body: { ...billboard, model: "another digest" } };
  const smaller = { body: { ...billboard, version: 4 } };
  for (const [changes, message] of [
    [{ "/v1/episodes": { status: 201, body: opened } }, /as the service said before/],
    [{ "/v1/episodes": { status: 201, body: { ...opened, trust: "local", horizon: 2 } } }, /horizon is 2/],
    [{ "/v1/billboards/5": another }, /the model changed/],
    [{ "/v1/billboards/5": smaller }, /billboard.version is 4/],
  ] as [Record<string, Json>, RegExp][]) {
    await serving(admitting("score", changes), async (url, sent) => {
      await assert.rejects(client(url).play("ann", steps), message);
      assert.equal(sent.filter(({ method }) => method === "POST").length, 1);
    });
  }
});

test("what a user did never stops an episode, and is in no request but as noise", async () => {
  const footprints: unknown[] = [];
  for (const [states, rewards] of [[[0, 0, 0, 0], [0, 0, 0]], [[3, NaN, 99, -1], [1.5, NaN, 0.123456789]]]) {
    await serving(admitting("regressions"), async (url, sent) => {
      const episode = await client(url, { trust: "local" }).play("ann", async (playing) => {
        let here = states![0]!;
        for (let step = 0; step < playing.horizon; step++) {
          const action = await playing.act(here);
          assert.equal(await playing.act(here), action);
          here = states![step + 1]!;
          playing.observe(rewards![step]!, here);
        }
      });
      assert.equal(episode.status, "counted");
      assert.equal(episode.clipped > 0, states![0] === 3);
      footprints.push(sent.map(({ method, path, body }) => [method, path.replace(/[0-9a-f]{32}/, "id"), body.length]));
      const report = JSON.parse(sent.at(-1)!.body);
      assert.deepEqual(Object.keys(report), ["token", "report", "reference"]);
    });
  }
  assert.deepEqual(footprints[0], footprints[1]);
});

test("leaving early sends noise alone, in the same bytes' number, and says so", async () => {
  await serving(admitting("counts"), async (url, sent) => {
    const devices = client(url);
    await devices.play("ann", steps);
    const left = await devices.play("bob", async (episode) => void (await episode.act(0)));
    assert.equal(left.status, "empty");
    assert.match(left.note!, /after 0 of 3 steps; an empty submission was sent/);
    await assert.rejects(devices.play("cyd", async () => { throw new Error("their battery died"); }), /battery/);
    const reports = sent.filter(({ path }) => path.endsWith("/report")).map(({ body }) => body.length);
    assert.equal(reports.length, 3);
    assert.equal(new Set(reports).size, 1);
  });
});

test("an episode keeps its order", async () => {
  await serving(admitting("counts"), async (url) => {
    const episode = client(url).episode("ann");
    await assert.rejects(episode.act(0), /episode is new/);
    await episode.open();
    await assert.rejects(episode.open(), /must be new/);
    assert.throws(() => episode.observe(1, 0), /without an action/);
    await episode.act(0);
    await assert.rejects(episode.act(1), /the one that was observed last/);
    await assert.rejects(episode.submit(), /observe every step first/);
    episode.observe(1, 2);
    episode.abandon();
    assert.equal(episode.status, "abandoned");
    await assert.rejects(episode.submitEmpty(), /abandoned/);
  });
});

// -- the shuffle model ----------------------------------------------------------------------------------------------------

/** The small deployment of regressions with the rules of the shuffling vectors. */
function shuffled() {
  const { model, billboard } = deploymentOf("regressions");
  const rules = casesOf("shuffling")[0].rules;
  return { model: { ...model, report: { ...model.report, grid: 2 ** -4, shuffle: rules } }, billboard };
}

test("a round's sum has the coins' noise and nothing else", () => {
  // Decoded sums of 60 rounds against the true sum: variance N/4 of the coins and of rounding; chi-square, 1e-6.
  const deployed = shuffled();
  const [model, board] = [Model.read(deployed.model), Billboard.read(deployed.billboard)];
  const rules = model.rules.shuffle!;
  const users = [0, 1, 2, 3].map((user) => (
    { states: [user, 1, 2, 3], actions: [0, 1, user % 2], rewards: [0.2, 1, 0.4], place: null }
  ));
  const size = rules.reach.data.length;
  const truth = new Float64Array(size);
  for (const seen of users) model.contribution(board, seen).data.forEach((v, i) => (truth[i]! += v / model.rules.grid));
  let [squares, degrees] = [0, 0];
  for (let turn = 0; turn < 60; turn++) {
    const [ones, messages] = [new BigInt64Array(size), new BigInt64Array(size)];
    users.forEach((seen, within) => {
      const sent = formMessages(model, board, new Clipped(seen), 0, within);
      rules.requireTally(0, within, sent);
      sent.ones.data.forEach((count, i) => (ones[i]! += count));
      sent.messages.data.forEach((count, i) => (messages[i]! += count));
    });
    const { shape } = rules.reach;
    const sum = rules.doubledSum(0, 4, { ones: { shape, data: ones }, messages: { shape, data: messages } });
    sum.data.forEach((doubled, i) => {
      const coins = Number(rules.coins.data[i]!);
      if (coins === 0) return assert.equal(Number(doubled) / 2, truth[i]);
      squares += (Number(doubled) / 2 - truth[i]!) ** 2 / (coins / 4);
      degrees++;
    });
  }
  // Rounding at random adds between 0 and 4·¼ to a variance of 45/4: at most 9%.
  assert.ok(squaresFit(squares, degrees) || squaresFit(squares / 1.05, degrees));
  assert.ok(!squaresFit(0.64 * squares, degrees));
});

test("messages go to the shuffler and to nobody else, the same ones at every try", async () => {
  const { model, billboard } = shuffled();
  const changes = { "/v1/status": { body: { trust: "shuffle" } }, "/v1/model": { body: model } };
  const base = admitting("regressions", changes);
  const answer = (sent: Sent) => {
    const given = base(sent);
    if (sent.path !== "/v1/episodes" || given === null || given === "lost") return given;
    return { ...given, body: { ...(given.body as object), trust: "shuffle", place: 1, reference: billboard.version } };
  };
  await serving(answer, async (url, sent) => {
    const handed: Integers[] = [];
    let broken = true;
    const shuffler = async (round: number, place: number, ones: Integers, messages: Integers) => {
      assert.deepEqual([round, place], [0, 1]);
      handed.push(ones, messages);
      if (broken) throw new Error("the shuffler is away");
    };
    const devices = client(url, { shuffler });
    const episode = await devices.episode("ann").open();
    await steps(episode);
    await assert.rejects(episode.submit(), /away/);
    broken = false;
    await episode.submit();
    assert.equal(episode.status, "sent");
    assert.deepEqual(handed.slice(0, 2), handed.slice(2));
    const posts = sent.filter(({ method }) => method === "POST").map(({ path }) => path);
    assert.deepEqual(posts, ["/v1/episodes"]);
    await assert.rejects(client(url, { shuffler, epsilon: 1 }).play("ann", steps), /whether others flip/);
  });
});

test("rules that hide nothing, and places that do not exist, are refused", () => {
  const { model, billboard } = shuffled();
  const { rules } = casesOf("shuffling")[0];
  const coins = readIntegers("coins", rules.coins, rules.coins.shape);
  const changed = (change: (count: bigint, place: number) => bigint) => toJson({ ...coins, data: coins.data.map(change) });
  for (const bare of [{ coins: changed((count, place) => (place ? count : 0n)) }, { reach: changed(() => -1n) }]) {
    const wrong = ShuffleRules.read({ ...rules, ...bare }, rules.coins.shape);
    assert.throws(() => wrong.requireHiding(), /do not send/);
  }
  for (const [round, place] of [[2, 0], [-1, 0], [0, 4], [0, -1]] as const) {
    assert.throws(() => formMessages(Model.read(model), Billboard.read(billboard), null, round, place), /place/);
  }
  const without = Model.read(deploymentOf("counts").model);
  assert.throws(() => formMessages(without, Billboard.read(billboard), null, 0, 0), InvalidInput);
});

test("a shuffler fixes a batch once, of all places", async () => {
  const { model, billboard } = shuffled();
  const [known, board] = [Model.read(model), Billboard.read(billboard)];
  let [down, admitted] = [true, 1];
  await serving(
    ({ path }) => {
      if (path === "/v1/model") return { body: model };
      return path === "/v1/status" ? { body: { admitted } } : down ? { status: 400 } : {};
    },
    async (url, sent) => {
      const shuffler = new Shuffler(new Connection(url, "key"));
      const hand = async (within: number) => {
        const { ones, messages } = formMessages(known, board, null, 0, within);
        await shuffler.take(0, within, ones, messages);
      };
      await assert.rejects(hand(0), /not started/); // it might be of a round whose batch is out already
      assert.deepEqual(await shuffler.postDue(), []);
      await hand(0);
      await hand(0); // counts once
      await hand(1);
      await hand(3);
      await assert.rejects(shuffler.finish(0), /admitted and recorded/); // nothing is fixed before all have come
      admitted = 4;
      await assert.rejects(shuffler.finish(0));
      await assert.rejects(hand(2), /the round is over/);
      down = false;
      await shuffler.finish(0);
      await shuffler.finish(0);
      const batches = sent.filter(({ path }) => path === "/v1/batches").map(({ body }) => body);
      assert.equal(batches.length, 2);
      assert.equal(batches[0], batches[1]);
      assert.equal(JSON.parse(batches[0]!).users, 4);
    },
  );
});

test("what a user sends makes no shuffler look: whether a round is lost is not theirs to decide", async () => {
  const { model, billboard } = shuffled();
  const known = Model.read(model);
  for (const [restores, first] of [[0, false], [1, true]] as const) {
    let status = { admitted: 0, recorded: 0, restores: 0 };
    const answer = ({ method, path }: Sent) =>
      method === "POST" ? { body: {} } : { body: path === "/v1/status" ? status : model };
    await serving(answer, async (url, sent) => {
      const shuffler = new Shuffler(new Connection(url, "key"), 0);
      if (first) await shuffler.postDue();
      const looks = () => sent.filter(({ path }) => path === "/v1/status").length;
      const before = looks();
      const { ones, messages } = formMessages(known, Billboard.read(billboard), null, 0, 0);
      status = { admitted: 1, recorded: 1, restores };
      if (first) await shuffler.take(0, 0, ones, messages, restores);
      else await assert.rejects(shuffler.take(0, 0, ones, messages, restores), /not started/);
      assert.equal(looks(), before);
      status = { admitted: 4, recorded: 4, restores };
      assert.deepEqual(await shuffler.postDue(), []); // full at the first look: left alone, whether or not users have sent
      await assert.rejects(shuffler.take(0, 1, ones, messages, restores), /batch is not fixed|as many as/);
    });
  }
});

test("a client whose shuffler has not looked names no user to the service, and goes on once it has", async () => {
  const { model, billboard } = shuffled();
  const changes = {
    "/v1/status": { body: { trust: "shuffle", admitted: 0 } }, "/v1/model": { body: model },
  };
  const base = admitting("regressions", changes);
  const answer = (sent: Sent) => {
    const given = base(sent);
    if (sent.path !== "/v1/episodes" || given === null || given === "lost") return given;
    return { ...given, body: { ...(given.body as object), trust: "shuffle", place: 1, reference: billboard.version } };
  };
  await serving(answer, async (url, sent) => {
    const shuffler = new Shuffler(new Connection(url, "key"));
    const devices = client(url, { shuffler: shuffler.take });
    await assert.rejects(devices.play("ann", steps), /shuffler is not started/);
    assert.ok(sent.every(({ method }) => method === "GET"));
    assert.deepEqual(await shuffler.postDue(), []);
    assert.equal((await devices.play("ann", steps)).status, "sent");
  });
});

test("after a restore of the service's store nothing leaves that was handed over before", async () => {
  const { model, billboard } = shuffled();
  const known = Model.read(model);
  const rules = known.rules.shuffle!;
  let status = { admitted: 0, recorded: 0, restores: 0 };
  const answer = ({ method, path }: Sent) => {
    if (method === "POST") return { body: {} };
    return { body: path === "/v1/status" ? status : model };
  };
  await serving(answer, async (url, sent) => {
    const batches = () => sent.filter(({ path }) => path === "/v1/batches").map(({ body }) => JSON.parse(body));
    const shuffler = new Shuffler(new Connection(url, "key"), 0);
    assert.deepEqual(await shuffler.postDue(), []);
    // Every message of a user is a one: how many of them a batch has says how many users' messages are in it.
    const hand = async (place: number, restores: number) => {
      const { messages } = formMessages(known, Billboard.read(billboard), null, 0, place);
      await shuffler.take(0, place, messages, messages, restores);
    };
    await hand(0, 0);
    await hand(1, 0);
    status = { admitted: 0, recorded: 0, restores: 1 }; // the admissions of both are lost
    await hand(2, 1); // waits until the shuffler looks, which it does by its own clock
    assert.deepEqual(await shuffler.postDue(), []);
    await assert.rejects(hand(3, 0), /lost with the store/);
    status = { admitted: 4, recorded: 3, restores: 1 };
    assert.deepEqual(await shuffler.postDue(), []); // a restore would forget one of its users
    await assert.rejects(shuffler.finish(0), /admitted and recorded/);
    status = { admitted: 4, recorded: 4, restores: 1 };
    assert.deepEqual(await shuffler.postDue(), [0]);
    const [batch] = batches();
    assert.equal(batch.restores, 1);
    const ones = readIntegers("ones", batch.ones, rules.reach.shape).data;
    const all = readIntegers("messages", batch.messages, rules.reach.shape).data;
    const zeros = all.reduce((sum, count, i) => sum + count - ones[i]!, 0n);
    const least = 3n * rules.reach.data.reduce((sum, reach) => sum + reach, 0n);
    assert.ok(zeros >= least, "the three silent places are dummies"); // a dummy has as many zeros as ones, and its coins
  });
});

test("when a batch is posted, and of how many messages, does not depend on who sent", async () => {
  const { model, billboard } = shuffled();
  const known = Model.read(model);
  const rules = known.rules.shuffle!;
  const whole = rules.coins.data.map((coins, i) => 2n * BigInt(rules.size(0)) * rules.reach.data[i]! + coins);
  for (const silent of [[], [1], [3], [0, 1, 2, 3]]) {
    let admitted = 0;
    const answer = ({ method, path }: Sent) => {
      if (method === "POST") return { body: {} };
      return { body: path === "/v1/status" ? { admitted } : model };
    };
    await serving(answer, async (url, sent) => {
      const batches = () => sent.filter(({ path }) => path === "/v1/batches").map(({ body }) => JSON.parse(body));
      const shuffler = new Shuffler(new Connection(url, "key"), 3600);
      assert.deepEqual(await shuffler.postDue(), []);
      const hand = async (place: number) => {
        const { ones, messages } = formMessages(known, Billboard.read(billboard), null, 0, place);
        await shuffler.take(0, place, ones, messages);
      };
      for (admitted = 1; admitted <= 4; admitted++) {
        if (!silent.includes(admitted - 1)) await hand(admitted - 1);
        assert.deepEqual(await shuffler.postDue(), []);
      }
      admitted = rules.lastCall(0)! - 1;
      assert.deepEqual([await shuffler.postDue(), batches().length], [[], 0]);
      admitted++;
      assert.deepEqual([await shuffler.postDue(), await shuffler.postDue()], [[0], []]);
      const [batch] = batches();
      assert.equal(batch.users, 4);
      assert.deepEqual(readIntegers("messages", batch.messages, rules.reach.shape).data, whole);
      if (silent.length > 0) await assert.rejects(hand(silent[0]!), /the round is over/);
      assert.equal(batches().length, 1);
    });
  }
  assert.throws(() => new Shuffler(new Connection("http://127.0.0.1:1", "key"), -1), /patience/);
});
