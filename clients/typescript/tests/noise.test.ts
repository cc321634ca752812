// SPDX-License-Identifier: Apache-2.0
/**
 * The device's noise: its law exactly, coin by coin, and at the scales of a deployment.
 *
 * Two kinds of checks. *Exhaustive*: a sampler that is fed every possible sequence of uniform integers, with its weight,
 * has a law that can be added up; it must be the formula's, up to the sequences that were cut off. *Statistical*: tests on
 * draws of the operating system's entropy, each with a false-alarm rate of 1e-6.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import "./only_secure_entropy.js";
import { DiscreteGaussian, discreteLaplace, draw, exponentialCoin } from "../src/discrete_gaussian.js";
import { fraction, fractionOf, quotient } from "../src/wire/fractions.js";
import { LARGEST_SCALE } from "../src/wire/grid.js";
import { type Uniform, coinHeads, freshUniform, uniform53 } from "../src/wire/randomness.js";
import { binomialFits, countCells, normalBelow, pearsonFits, squaresFit } from "./laws.js";

const randomBelow = freshUniform();

function drawn(scale: number, size: number, grid = 1): number[] {
  return Array.from(draw({ shape: [size], data: new Float64Array(size).fill(scale) }, grid).data, Number);
}

class OutOfAnswers extends Error {}

/** Probability of every outcome, following each sequence of answers until its weight falls below `least`; and the rest. */
function exactLaw(sampler: (uniform: Uniform) => unknown, least: number): { law: Map<string, number>; lost: number } {
  const law = new Map<string, number>();
  let lost = 0;
  const waiting: { answers: bigint[]; weight: number }[] = [{ answers: [], weight: 1 }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { answers, weight } = next;
    const asked: bigint[] = [];
    try {
      const outcome = String(sampler((n) => {
        asked.push(n);
        if (asked.length > answers.length) throw new OutOfAnswers();
        return answers[asked.length - 1]!;
      }));
      law.set(outcome, (law.get(outcome) ?? 0) + weight);
    } catch (problem) {
      if (!(problem instanceof OutOfAnswers)) throw problem;
      const share = weight / Number(asked.at(-1)!);
      if (share < least) {
        lost += weight;
        continue;
      }
      for (let answer = 0n; answer < asked.at(-1)!; answer++) {
        waiting.push({ answers: [...answers, answer], weight: share });
      }
    }
  }
  return { law, lost };
}

for (const [above, below] of [[0, 1], [1, 3], [1, 1], [3, 2], [5, 2]] as const) {
  test(`the coin of ${above}/${below} has its exact probability`, () => {
    const { law, lost } = exactLaw((uniform) => exponentialCoin(BigInt(above), BigInt(below), uniform), 1e-5);
    const [found, exact] = [law.get("true")!, Math.exp(-above / below)];
    assert.ok(found <= exact * (1 + 1e-12) && found + lost >= exact * (1 - 1e-12) && lost < 0.02);
  });
}

test("the Laplace law is exact, and its signs are fair", () => {
  const { law, lost } = exactLaw((uniform) => discreteLaplace(2n, uniform), 1e-6);
  let total = 0;
  for (let k = -200; k <= 200; k++) total += Math.exp(-Math.abs(k) / 2);
  assert.ok(lost < 0.1);
  for (let k = -3; k <= 3; k++) {
    const [found, exact] = [law.get(String(k))!, Math.exp(-Math.abs(k) / 2) / total];
    assert.ok(found <= exact + 1e-12 && exact <= found + lost + 1e-12);
  }
  assert.ok(Math.abs(law.get("2")! - law.get("-2")!) < 1e-12); // a second way to make zero would not leave this
});

/** Observed and expected counts of every integer within 1.7 scales, and of the two tails. */
function cells(draws: number[], scale: number, lawScale: number): [number[], number[]] {
  const reach = Math.floor(1.7 * scale);
  const cell = (k: number) => Math.min(Math.max(k, -reach - 1), reach + 1) + reach + 1;
  const expected = Array<number>(2 * reach + 3).fill(0);
  let total = 0;
  for (let k = -Math.ceil(40 * lawScale); k <= 40 * lawScale; k++) {
    const mass = Math.exp(-(k * k) / (2 * lawScale ** 2));
    expected[cell(k)]! += mass;
    total += mass;
  }
  return [countCells(draws.map(cell), expected.length), expected.map((mass) => (mass / total) * draws.length)];
}

for (const scale of [0.6, 1, 1.75, 4.3]) {
  test(`scale ${scale} has the discrete law`, () => {
    const draws = drawn(scale, 20_000);
    assert.ok(pearsonFits(...cells(draws, scale, scale)));
    // The test has power: the law of a scale 15% off is told apart (non-centrality above 250 in every case here).
    assert.ok(!pearsonFits(...cells(draws, scale, 1.15 * scale)));
  });
}

for (const scale of [2 ** 24 * 1.37, 2 ** 40 / 3]) {
  test(`scale ${scale} is Gaussian and uses every low digit`, () => {
    const size = 20_000;
    const draws = drawn(scale, size);
    // Twenty equally likely cells; the discrete law is the Gaussian's up to 1e-13.
    const even = Array<number>(20).fill(size / 20);
    const cell = (wide: number) => draws.map((k) => Math.floor(normalBelow((k + 0.5) / wide) * 20));
    assert.ok(pearsonFits(countCells(cell(scale), 20), even));
    assert.ok(!pearsonFits(countCells(cell(1.1 * scale), 20), even));
    const digits = draws.map((k) => ((k % 16) + 16) % 16);
    assert.ok(pearsonFits(countCells(digits, 16), Array<number>(16).fill(size / 16)));
  });
}

test("tails are as heavy as they should be", () => {
  // Expected beyond 3σ: 405 of 150 000; beyond 4σ: 9.5 (0 has probability 7e-5, so too light shows at 3σ first).
  const [scale, size] = [2 ** 21, 150_000];
  const draws = drawn(scale, size);
  for (const deviations of [3, 4]) {
    const beyond = draws.filter((k) => Math.abs(k) > deviations * scale).length;
    const chance = 2 * (1 - normalBelow(deviations));
    assert.ok(binomialFits(beyond, size, chance), `${beyond} beyond ${deviations}σ`);
    // Power: half or double as many would be told apart, beyond 3σ.
    if (deviations === 3) assert.ok(![0.5, 2].some((factor) => binomialFits(beyond, size, factor * chance)));
  }
  // Beyond 6σ there are 3e-4 on average, and 9σ is as good as never (false alarm 3e-14).
  assert.ok(draws.every((k) => Math.abs(k) < 9 * scale));
});

test("no draw repeats another", () => {
  // Two draws of scale s agree with probability 1/(2√π s); any two of 5 000 at 2^48 with 1.3e-8.
  const draws = drawn(2 ** 48, 5_000);
  assert.equal(new Set(draws).size, draws.length);
});

test("each coordinate has its own scale in units of the grid", () => {
  const size = 6_000;
  const scale = { shape: [size, 3], data: Float64Array.from({ length: 3 * size }, (_, i) => [0, 3, 48][i % 3]!) };
  const { shape, data } = draw(scale, 0.25);
  assert.deepEqual(shape, [size, 3]);
  const columns = [0, 1, 2].map((column) => Array.from(data, Number).filter((_, i) => i % 3 === column));
  assert.ok(columns[0]!.every((k) => k === 0));
  const units = [columns[1]!.map((k) => k / 12), columns[2]!.map((k) => k / 192)];
  for (const unit of units) assert.ok(squaresFit(unit.reduce((sum, k) => sum + k * k, 0), size));
  // 5 standard deviations of a correlation of 6 000 independent pairs: false alarm 6e-7.
  const correlation = units[0]!.reduce((sum, k, i) => sum + k * units[1]![i]!, 0) / size;
  assert.ok(Math.abs(correlation) < 5 / Math.sqrt(size));
});

test("the scale is the exact quotient", () => {
  for (const [scale, grid] of [[0.1, 2 ** -30], [3.7, 4], [2 ** 50 / 3, 16], [1e-310, 2 ** -1070]] as const) {
    const exact = quotient(fractionOf(scale), fractionOf(grid));
    const law = DiscreteGaussian.of(exact);
    assert.equal(law.numerator * exact.denominator ** 2n, law.denominator * exact.numerator ** 2n);
    assert.equal(law.width, exact.numerator / exact.denominator + 1n);
    assert.equal(Number(exact.numerator) / Number(exact.denominator), scale / grid);
  }
  assert.deepEqual(fractionOf(0.375), fraction(3n, 8n));
  assert.deepEqual(fractionOf(6), { numerator: 6n, denominator: 1n });
});

test("impossible scales are refused", () => {
  for (const scale of [-1, NaN, Infinity, 2 * LARGEST_SCALE]) {
    assert.throws(() => draw({ shape: [1], data: Float64Array.of(scale) }, 1), /noise scale/);
  }
  for (const grid of [0, NaN, Infinity]) assert.throws(() => draw({ shape: [1], data: Float64Array.of(1) }, grid));
});

test("sampling is free of floating-point numbers", () => {
  // The compiled source from the law's making on: every literal is a BigInt, and nothing is called but samplers.
  const source = readFileSync(new URL("../src/discrete_gaussian.js", import.meta.url), "utf8");
  const code = source.slice(source.indexOf("draw(uniform) {")).replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");
  assert.ok(code.includes("shortCoin") && !/\bMath\b|\bNumber\b|\d\.\d|\b\d+\b(?!n)/.test(code));
  const asked = new Set<string>();
  DiscreteGaussian.of(fraction(7n, 3n)).draw((n) => (asked.add(typeof n), randomBelow(n)));
  assert.deepEqual([...asked], ["bigint"]);
});

test("uniform integers are uniform, of any size", () => {
  for (const n of [1n, 2n, 3n, 10n, 17n]) {
    const size = 20_000;
    const counts = countCells(Array.from({ length: size }, () => Number(randomBelow(n))), Number(n));
    if (n === 1n) assert.deepEqual(counts, [size]);
    else assert.ok(pearsonFits(counts, Array<number>(Number(n)).fill(size / Number(n))));
  }
  // Thirds of a number of 200 bits: what a lost or repeated word would distort.
  const large = 3n * 2n ** 198n + 1n;
  const thirds = Array.from({ length: 6_000 }, () => Number((3n * randomBelow(large)) / large));
  assert.ok(pearsonFits(countCells(thirds, 3), [2_000, 2_000, 2_000]));
  const uniforms = Array.from({ length: 20_000 }, () => Math.floor(16 * uniform53()));
  assert.ok(pearsonFits(countCells(uniforms, 16), Array<number>(16).fill(1_250)));
});

test("coins are fair, as many as asked for", () => {
  for (const count of [1, 7, 8, 4_001, 600_001]) {
    const heads = coinHeads(count);
    assert.ok(heads >= 0 && heads <= count);
    if (count > 1000) assert.ok(Math.abs(heads - count / 2) < 5 * Math.sqrt(count / 4)); // false alarm 6e-7
  }
  assert.equal(coinHeads(0), 0);
  const single = Array.from({ length: 4_000 }, () => coinHeads(3));
  assert.ok(pearsonFits(countCells(single, 4), [500, 1_500, 1_500, 500]));
});
