// SPDX-License-Identifier: Apache-2.0
/** Rules of a hostile service: refused before anything is formed. What passes keeps its bounds, whatever a user did. */

import assert from "node:assert/strict";
import { test } from "node:test";

import "./only_secure_entropy.js";
import { Clipped } from "../src/boundary.js";
import { noisedReport } from "../src/report.js";
import {
  Billboard, InvalidInput, Model, clipNorm, readFloats, readIndices, requirePromise, sizeOf, toJson,
} from "../src/wire/index.js";
import { erfc } from "../src/wire/promise.js";
import { squaresFit } from "./laws.js";
import { type Json, casesOf, deploymentOf } from "./vectors.js";

const FORMS = ["regressions", "counts", "score"] as const;

/** The deployment of a form with other rules. */
function withRules(form: (typeof FORMS)[number], rules: Json): Json {
  const { model } = deploymentOf(form);
  return { ...model, report: { ...model.report, ...rules } };
}

function scalesOf(model: Json): { shape: readonly number[]; data: Float64Array } {
  return readFloats("noise", model.report.noise_scale, model.report.noise_scale.shape);
}

for (const form of FORMS) {
  test(`${form}: one coordinate without noise is found, and so is noise that is none`, () => {
    const scale = scalesOf(deploymentOf(form).model);
    for (const place of [0, scale.data.indexOf(scale.data.at(-1)!)]) {
      for (const wrong of [0, -1, NaN]) {
        const data = scale.data.map((v, i) => (i === place ? wrong : v));
        const model = Model.read(withRules(form, { noise_scale: toJson({ shape: scale.shape, data }) }));
        assert.throws(() => requirePromise(model, null, 1e-5, 1), InvalidInput);
      }
    }
    requirePromise(Model.read(deploymentOf(form).model), null, 1e-5, 1);
  });

  test(`${form}: more than was promised is refused`, () => {
    const [{ model, delta, epsilon }] = casesOf("promise").filter((one) => one.model?.report.form === form);
    requirePromise(Model.read(model), epsilon, delta, 1);
    assert.throws(() => requirePromise(Model.read(model), 0.99 * epsilon, delta, 1), /asks for less noise/);
  });

  test(`${form}: a grid that is coarse, too fine, or no power of two is refused`, () => {
    for (const grid of [2 ** -5, 2 ** -50, 2 ** -60]) {
      assert.throws(() => requirePromise(Model.read(withRules(form, { grid })), null, 1e-5, 1), /grid|noise scale/);
    }
    for (const grid of [3 * 2 ** -20, 0, -1, null, "1"]) {
      assert.throws(() => Model.read(withRules(form, { grid })), InvalidInput);
    }
    requirePromise(Model.read(withRules(form, { grid: 2 ** -30 })), null, 1e-5, 1);
  });

  test(`${form}: noise of fewer numbers than a contribution has is refused`, () => {
    // One number's noise for all coordinates would leave their differences bare.
    const one = { shape: [1, 1], data: Float64Array.of(12.5) };
    assert.throws(() => Model.read(withRules(form, { noise_scale: toJson(one) })), /report.noise_scale/);
  });

  test(`${form}: a report is the contribution plus noise of the published scale`, () => {
    // Sum of squares of (report − contribution)/scale over 2 400 numbers or more: chi-square, false alarm 1e-6.
    const { model, billboard, episode } = deploymentOf(form);
    const [known, board] = [Model.read(model), Billboard.read(billboard)];
    const [steps, scale] = [known.steps(board, episode).data, known.rules.noiseScale.data];
    let [squares, degrees] = [0, 0];
    for (let turn = 0; degrees < 2_400; turn++) {
      const seen = turn % 2 ? episode : null; // a user who shows nothing sends noise alone
      noisedReport(known, board, seen && new Clipped(seen)).data.forEach((reported, i) => {
        const noise = Number(reported - (seen ? steps[i]! : 0n)) * known.rules.grid;
        if (scale[i] === 0) return assert.equal(noise, 0);
        squares += (noise / scale[i]!) ** 2;
        degrees++;
      });
    }
    assert.ok(squaresFit(squares, degrees) && !squaresFit(1.5 * squares, degrees));
  });
}

test("contributions that might reach 2^53 steps are refused, however noisy", () => {
  const filled = (shape: number[], value: number) => toJson({ shape, data: new Float64Array(sizeOf(shape)).fill(value) });
  const model = (bound: number) =>
    Model.read(withRules("regressions", { feature_bound: filled([3], bound), noise_scale: filled([3, 14], 12.5) }));
  requirePromise(model(2 ** 16), null, 1e-5, 1);
  assert.throws(() => requirePromise(model(2 ** 17), null, 1e-5, 1), /may have 2\^54.0 steps/);
});

test("contributions keep their bounds, whatever the billboard and the episode are", () => {
  for (const form of FORMS) {
    const { model, billboard } = deploymentOf(form);
    const known = Model.read(model);
    const largest = known.rules.form.largest(known.sizes, known.rules.bounds).data;
    for (const filler of [NaN, Infinity, -Infinity, 1e308, -1e-310, 0]) {
      const report = Object.fromEntries(Object.entries<Json>(billboard.report).map(([name, array]) => {
        if (["curious", "explorers", "at_random"].includes(name)) return [name, array]; // refused when it is read
        const { shape, data } = readFloats(name, array, array.shape);
        return [name, toJson({ shape, data: data.fill(filler) })];
      }));
      const board = Billboard.read({ ...billboard, report });
      for (const rewards of [[NaN, Infinity, -Infinity], [1e308, -1e308, 0.5]]) {
        const seen = { states: [0, 3, 1, 2], actions: [0, 1, 1], rewards, place: 0 };
        known.contribution(board, seen).data.forEach((entry, i) => assert.ok(Math.abs(entry) <= largest[i]!));
        assert.equal(known.steps(board, seen).data.length, largest.length);
      }
    }
  }
});

test("a clipped vector is within its norm in exact arithmetic", () => {
  const exact = (x: number) => BigInt(Math.round(x * 2 ** 80 / 2 ** 30)) * 2n ** 30n; // whole for these numbers
  for (const x of [[3, 4], [1, 1, 1], [0.1, 0.7, -0.3, 1e-9], [1e200, 1]]) {
    const clipped = clipNorm(Float64Array.from(x), 1);
    const square = clipped.reduce((sum, entry) => sum + exact(entry) ** 2n, 0n);
    assert.ok(square <= 2n ** 160n);
  }
});

test("what a service publishes is checked at the door", () => {
  const { model, billboard } = deploymentOf("score");
  for (const name of ["horizon", "states", "actions", "d1", "d2", "digest", "report", "transition_features"]) {
    assert.throws(() => Model.read({ ...model, [name]: undefined }), InvalidInput, name);
  }
  for (const wrong of [{ form: "2050" }, { pooled: "yes" }, { basis: undefined }]) {
    assert.throws(() => Model.read(withRules("score", wrong)), InvalidInput);
  }
  const told = casesOf("score_start")[0].model;
  for (const share of [0, 1, 5, -0.125, NaN]) {
    const start_share = toJson({ shape: [], data: Float64Array.of(share) });
    assert.throws(() => Model.read({ ...told, report: { ...told.report, start_share } }), /start_share is .*in \(0, 1\)/);
  }
  const sparse = casesOf("score").find((one) => one.model.successors !== null).model;
  const { shape } = sparse.successors;
  const beyond = toJson({ shape, data: new Int32Array(shape[0] * shape[1] * shape[2]).fill(99) });
  assert.throws(() => Model.read({ ...sparse, successors: beyond }), /successors is 99/);
  const wild = toJson({ shape: [3, 4], data: new Int32Array(12).fill(2) });
  assert.throws(() => Billboard.read({ ...billboard, policy: wild }), /policy is 2/);
  for (const data of ["AAAA", "AAAAAAAAAA", "AAAA AAAA\n", "!!!!"]) {
    const zero = { dtype: "<i4", shape: [1], data };
    assert.throws(() => readIndices("field", zero, [1], 4), /field.data/);
  }
  for (const name of Object.keys(billboard.report)) {
    const { [name]: _, ...rest } = billboard.report;
    const seen = { states: [0, 0, 0, 0], actions: [0, 0, 0], rewards: [0, 0, 0], place: 0 };
    assert.throws(() => Model.read(model).contribution(Billboard.read({ ...billboard, report: rest }), seen), InvalidInput);
  }
});

test("erfc is right to 13 digits", () => {
  const known = [
    [0, 1], [0.5, 0.4795001221869535], [1, 0.15729920705028513], [1.9999999, 0.004677737047746216],
    [2, 0.004677734981047266], [3, 2.209049699858544e-5], [5, 1.5374597944280349e-12], [10, 2.0884875837625448e-45],
    [-1, 1.8427007929497148], [26, 5.663192408856143e-296], [40, 0],
  ] as const;
  for (const [x, value] of known) assert.ok(Math.abs(erfc(x) - value) <= 1e-13 * value, `${x}: ${erfc(x)}`);
});
