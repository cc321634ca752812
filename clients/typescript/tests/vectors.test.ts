// SPDX-License-Identifier: Apache-2.0
/** Every case of the shared vectors: integers exactly, floating-point numbers up to a relative 1e-12. */

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";

import "./only_secure_entropy.js";
import { Budget, BudgetSpent, MemoryStore } from "../src/budget.js";
import { DiscreteGaussian } from "../src/discrete_gaussian.js";
import {
  Billboard, History, Model, ShuffleRules, clipIndex, clipInterval, clipNorm, clipReward, epsilonOf, quantize, readFloats, readIndices, readIntegers,
  reportEpsilon, roundAt, tallyOf, toJson, wellFormed,
} from "../src/wire/index.js";
import { fraction } from "../src/wire/fractions.js";
import { FILES, type Json, casesOf, folder, integers, numbers } from "./vectors.js";

function assertClose(found: ArrayLike<number>, wanted: ArrayLike<number>, relative = 1e-12, absolute = 0): void {
  assert.equal(found.length, wanted.length);
  for (let i = 0; i < wanted.length; i++) {
    const off = Math.abs(found[i]! - wanted[i]!);
    const same = Object.is(found[i], wanted[i]) || off <= relative * Math.abs(wanted[i]!) + absolute;
    assert.ok(same, `entry ${i}: ${found[i]} instead of ${wanted[i]}`);
  }
}

function checkArrays({ json, values }: Json): void {
  const read = { "<f8": readFloats, "<i8": readIntegers }[json.dtype as "<f8" | "<i8"];
  if (json.dtype === "<i4") {
    // Indices are never negative on this wire; the bytes of these are, and are refused with their field named.
    assert.throws(() => readIndices("policy", json, json.shape, 10), /policy is -2/);
    const data = Int32Array.from(values, Number);
    assert.deepEqual(toJson({ shape: json.shape, data }), json);
    return;
  }
  const array = read("array", json, json.shape);
  const written = Array.from(array.data as ArrayLike<unknown>, (v) => (typeof v === "bigint" ? String(v) : v));
  assert.deepEqual(written, values);
  assert.deepEqual(toJson(array), json);
}

function checkClipping(one: Json): void {
  if (one.clip === "reward" || one.clip === "index") {
    const given = one.x.map((value: Json) => (typeof value === "string" ? Number(value) : value));
    const clip = (value: Json) => (one.clip === "reward" ? clipReward(value) : clipIndex(value, one.below));
    assert.deepEqual(given.map(clip), one.result);
    assert.deepEqual(clip(undefined), one.result[given.indexOf(null)]);
    return;
  }
  const x = numbers(one.x);
  const clipped = one.clip === "norm" ? clipNorm(x, one.bound) : x.map((v) => clipInterval(v, one.low, one.high));
  assertClose(clipped, numbers(one.result));
}

function checkGrid({ grid, values, uniforms, steps }: Json): void {
  const given = { shape: [values.length], data: numbers(values) };
  const rounded = uniforms ? roundAt(given, grid, numbers(uniforms)) : quantize(given, grid);
  assert.deepEqual([...rounded.data].map(Number), steps);
}

function checkTrajectory({ episode, clipped, ...sizes }: Json): void {
  const { place, ...inside } = wellFormed(sizes, { ...episode, rewards: [...numbers(episode.rewards)], place: null });
  assert.equal(place, null);
  assert.deepEqual(inside, clipped);
}

function checkContribution({ model, billboard, episode, contribution, steps }: Json): void {
  const [known, board] = [Model.read(model), Billboard.read(billboard)];
  const found = known.contribution(board, episode);
  assert.deepEqual([...found.shape], [contribution.length, contribution[0].length]);
  assertClose(found.data, contribution.flat(), 1e-12, 1e-15);
  assert.deepEqual([...known.steps(board, episode).data], steps.flat().map(BigInt));
}

function checkBeliefs({ model, billboard, earlier, steps }: Json): void {
  const read = Model.read(model);
  const known = read.rules.form.belief!(read, Billboard.read(billboard), earlier ?? null);
  for (const [step, { seen, belief }] of steps.entries()) {
    const [state, action, reward, following] = seen;
    assert.equal(known.act(step, state), action);
    known.observe(state, action, reward, following);
    assertClose(known.summary, numbers(belief));
  }
}

function checkShuffling(one: Json): void {
  const rules = ShuffleRules.read(one.rules, one.rules.reach.shape);
  if ("admission" in one) {
    assert.deepEqual(rules.place(one.admission), { round: one.round, within: one.place });
    const coins = rules.coinsAt(one.round, one.place);
    assert.deepEqual(coins, integers(one.coins));
    const sent = tallyOf(integers(one.values), rules.reach, integers(one.heads), coins);
    assert.deepEqual(sent, { ones: integers(one.ones), messages: integers(one.messages) });
    rules.requireTally(one.round, one.place, sent);
  } else {
    assert.deepEqual([rules.end(one.round), rules.lastCall(one.round), rules.until(one.round)], one.deadlines);
    const batch = { ones: integers(one.ones), messages: integers(one.messages) };
    assert.deepEqual(rules.doubledSum(one.round, one.users, batch), integers(one.doubled_sum));
  }
}

function checkPromise({ model, mu, delta, distance, reports, epsilon }: Json): void {
  const found = model ? reportEpsilon(Model.read(model), delta, reports) : epsilonOf(mu, delta, distance);
  assertClose([found], [Number(epsilon)], 1e-9);
}

async function checkBudget({ reports, per_round, gap, visits, left }: Json): Promise<void> {
  const pattern = { contributions: reports, perRound: per_round ?? reports, gap };
  const store = new MemoryStore();
  const budget = new Budget(store, "scope", pattern);
  for (const [place, [user, round, allowed]] of visits.entries()) {
    assert.equal(await budget.allows(user, round), allowed);
    const taken = new Budget(store, "scope", pattern).take(user, { episode: `${place}`, kind: "report", content: {} }, round);
    if (allowed) await taken;
    else await assert.rejects(taken, BudgetSpent);
  }
  for (const [user, more] of Object.entries(left)) assert.equal(await budget.left(user), more);
}

function checkDiscreteGaussian({ numerator, denominator, uniforms, draw }: Json): void {
  const left = [...uniforms];
  const uniform = (n: bigint) => {
    const [asked, answer] = left.shift();
    assert.equal(n, BigInt(asked));
    return BigInt(answer);
  };
  const law = DiscreteGaussian.of(fraction(BigInt(numerator), BigInt(denominator)));
  assert.equal(law.draw(uniform), BigInt(draw));
  assert.equal(left.length, 0);
}

function checkActing({ billboard, step, state, place, uniform, action, probability }: Json): void {
  const board = Billboard.read(billboard);
  assert.equal(board.choose(step, state, place, uniform), action);
  assert.equal(board.probability(step, state, place, action), probability);
}

function checkHistory({ history, seen, states }: Json): void {
  const known = History.read(history);
  assert.deepEqual(states, seen.map((_: number, step: number) => known.state(seen.slice(0, step + 1))));
  assert.throws(() => known.state([]), /observations is none/);
  assert.throws(() => History.read({ ...history, contexts: history.contexts.slice(1) }), /history\.contexts/);
}

const CHECKS: Record<(typeof FILES)[number], (one: Json) => void | Promise<void>> = {
  arrays: checkArrays, clipping: checkClipping, grid: checkGrid, trajectory: checkTrajectory,
  regressions: checkContribution, counts: checkContribution, score: checkContribution,
  score_start: checkContribution, score_residual: checkContribution, kinds: checkContribution, kinds_planned: checkContribution, beliefs: checkBeliefs, factors: checkContribution, tastes: checkBeliefs, shuffling: checkShuffling,
  promise: checkPromise, budget: checkBudget, discrete_gaussian: checkDiscreteGaussian, acting: checkActing, history: checkHistory,
};

test("every file of the shared vectors is checked", () => {
  assert.deepEqual(readdirSync(folder()).sort(), FILES.map((name) => `${name}.json`).sort());
});

for (const name of FILES) {
  test(`${name}: every case follows from its file alone`, async () => {
    const cases = casesOf(name);
    assert.ok(cases.length >= 2);
    for (const one of cases) await CHECKS[name](one);
  });
}
