// SPDX-License-Identifier: Apache-2.0
/**
 * The form `score-residual`: the vector of the form `score`, and what the blend leaves unexplained in every pair.
 *
 * A billboard of this form carries besides: m directions D (S × m) of next states; for every cell q, a pair of state and
 * action (of each step by itself unless `pooled`), the expected direction and reward; two scales g_r and g_v; the radius
 * R_r; and the share ρ. Every step at q adds (D(s′) − expected(q), g_r (r − r̂(q)), g_v) to the cell's m + 2 numbers u, and
 * with v the vector of `score` the contribution is clip(√(1 − ρ) clip(v), √ρ clip(u / R_r)).
 *
 * Formal guarantee. Whatever model, billboard and trajectory are, the contribution has 2-norm at most 1: the whole of it
 * is clipped to the unit ball, last. Two users are therefore at most 2 apart, and g√D more after rounding to a grid g.
 */

import { type Floats, type Shape } from "../arrays.js";
import type { Billboard } from "../billboard.js";
import { clipInterval, clipNorm } from "../clipping.js";
import { InvalidInput } from "../errors.js";
import type { Dimensions, Model } from "../model.js";
import type { Trajectory } from "../trajectory.js";
import { type Bounds, type Form, requireVersion } from "./form.js";
import { ScoreVector } from "./score.js";

class ScoreResidual extends ScoreVector {
  override readonly name: string = "score-residual";
  override readonly stays = false;

  override boundShapes(sizes: Dimensions): Record<string, Shape> {
    return { ...super.boundShapes(sizes), directions: [] };
  }

  /** The numbers of `score`, and m + 2 for every cell. */
  override shape(sizes: Dimensions, bounds: Bounds): Shape {
    return [1, super.shape(sizes, bounds)[1]! + cellsOf(sizes, bounds) * (directionsOf(bounds) + 2)];
  }

  override versionShapes(sizes: Dimensions, bounds: Bounds): Record<string, Shape> {
    const { states, actions } = sizes;
    const size = directionsOf(bounds);
    const groups = bounds.flags["pooled"] ? 1 : sizes.horizon;
    return {
      ...super.versionShapes(sizes, bounds),
      residual_directions: [states, size],
      residual_expected: [groups, states, actions, size],
      residual_rewards: [groups, states, actions],
      residual_reward_scale: [], residual_count_scale: [], residual_radius: [], residual_share: [],
    };
  }

  override contribution(model: Model, billboard: Billboard, seen: Trajectory): Floats {
    requireVersion(model, billboard);
    const share = clipInterval(number(billboard, "share"), 0, 1);
    const [weight, residualWeight] = [Math.sqrt(1 - share), Math.sqrt(share)];
    const stacked = Float64Array.from([
      ...super.contribution(model, billboard, seen).data.map((entry) => weight * entry),
      ...clipNorm(residual(model, billboard, seen), 1).map((entry) => residualWeight * entry),
    ]);
    return { shape: [1, stacked.length], data: clipNorm(stacked, 1) };
  }
}

/** What an episode tells of every cell, in units of its radius, not clipped. */
function residual(model: Model, billboard: Billboard, seen: Trajectory): Float64Array {
  const { sizes, rules } = model;
  const { states, actions, horizon } = sizes;
  const size = directionsOf(rules.bounds);
  const [directions, expected, rewards] = ["directions", "expected", "rewards"].map(
    (name) => billboard.part(`residual_${name}`).data,
  ) as [Float64Array, Float64Array, Float64Array];
  const [rewardScale, countScale] = [number(billboard, "reward_scale"), number(billboard, "count_scale")];
  const told = new Float64Array(cellsOf(sizes, rules.bounds) * (size + 2));
  for (let step = 0; step < horizon; step++) {
    const group = rules.bounds.flags["pooled"] ? 0 : step;
    const cell = (group * states + seen.states[step]!) * actions + seen.actions[step]!;
    const start = cell * (size + 2);
    for (let along = 0; along < size; along++) {
      told[start + along]! += directions[seen.states[step + 1]! * size + along]! - expected[cell * size + along]!;
    }
    told[start + size]! += rewardScale * (seen.rewards[step]! - rewards[cell]!);
    told[start + size + 1]! += countScale;
  }
  const radius = number(billboard, "radius");
  return told.map((entry) => entry / radius);
}

function number(billboard: Billboard, name: string): number {
  return billboard.part(`residual_${name}`).data[0]!;
}

function cellsOf({ horizon, states, actions }: Dimensions, bounds: Bounds): number {
  return (bounds.flags["pooled"] ? 1 : horizon) * states * actions;
}

/** m, the directions that a round asks about. */
function directionsOf(bounds: Bounds): number {
  const size = bounds.arrays["directions"]!.data[0]!;
  if (!(Number.isInteger(size) && size >= 1 && size < 2 ** 20)) {
    throw new InvalidInput("report.directions", size, "a whole number of at least 1", "ask the service's operator");
  }
  return size;
}

export const scoreResidual: Form = new ScoreResidual();
