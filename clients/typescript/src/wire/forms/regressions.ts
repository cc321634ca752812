// SPDX-License-Identifier: Apache-2.0
/**
 * The form `regressions`: packed Grams and moments of two regressions per step.
 *
 * At step h of an episode under the value function V of the version that its user was served, the pairs are (φ_V(s, a),
 * V(s′)) for the transition parameter and (ϕ(s, a), r) for the reward parameter. A contribution is one row per step: the
 * packed φφᵀ, φV, the packed ϕϕᵀ, ϕr. The rules name coordinates θ_r = c + Bη of the reward parameter: the reward pair is
 * (Bᵀϕ, r − ⟨ϕ, c⟩), which with B = I and c = 0 is the one above.
 *
 * Formal guarantee. Features are clipped to their norm, targets and rewards to their interval before any product is
 * formed. How an observation is *computed* is not relied upon.
 */

import { ANY, type Floats, type Shape } from "../arrays.js";
import type { Billboard } from "../billboard.js";
import { clipInterval, clipNorm } from "../clipping.js";
import { followingValues, rewardRow, transitionRows } from "../features.js";
import type { Dimensions, Model, Rules } from "../model.js";
import { packedSize, packedSquare } from "../packing.js";
import type { Trajectory } from "../trajectory.js";
import { type Bounds, type Form, inBasis, inner, least, requireVersion } from "./form.js";

/** What pairs are clipped to, one number per step each. */
const PER_STEP = ["feature_bound", "target_low", "target_high", "reward_bound", "reward_low", "reward_high"] as const;

class Regressions implements Form {
  readonly name = "regressions";
  readonly flags = ["nonnegative_rewards"];
  readonly formedUnder = "served";

  boundShapes({ horizon, d2 }: Dimensions): Record<string, Shape> {
    const perStep = Object.fromEntries(PER_STEP.map((name) => [name, [horizon]]));
    return { ...perStep, reward_basis: [d2, ANY], reward_centre: [d2] };
  }

  shape({ horizon, d1 }: Dimensions, bounds: Bounds): Shape {
    const k = contrastsOf(bounds);
    return [horizon, packedSize(d1) + d1 + packedSize(k) + k];
  }

  versionShapes({ horizon, states }: Dimensions): Record<string, Shape> {
    return { framed_values: [horizon, states] };
  }

  requirePlan(): void {} // users act by the policy alone, which was checked

  act(billboard: Billboard, step: number, state: number, _place: number | null, uniform: number): number {
    return billboard.act(step, state, uniform);
  }

  probability(billboard: Billboard, step: number, state: number, _place: number | null, action: number): number {
    return billboard.probabilityByPolicy(step, state, action);
  }

  contribution(model: Model, billboard: Billboard, seen: Trajectory): Floats {
    requireVersion(model, billboard);
    const { sizes, rules } = model;
    const values = billboard.report["framed_values"]!;
    const rows: Float64Array[] = [];
    for (let step = 0; step < sizes.horizon; step++) {
      const { moves, pays } = boundsAt(rules.bounds, step);
      const [here, there, action] = [seen.states[step]!, seen.states[step + 1]!, seen.actions[step]!];
      const framed = values.data.subarray(step * sizes.states, (step + 1) * sizes.states);
      const following = followingValues(model, framed, here, action);
      const products = transitionRows(model, here, action).map((row) => inner(row, following));
      const features = clipNorm(Float64Array.from(products), moves.longest);
      const target = clipInterval(framed[there]!, moves.low, moves.high);
      const paid = rewardRow(model, here, action);
      const contrast = inBasis(paid, rules.bounds.arrays["reward_basis"]!, 1);
      const inside = rules.bounds.flags["nonnegative_rewards"] ? contrast.map((pay) => Math.max(pay, 0)) : contrast;
      const rewardFeatures = clipNorm(inside, pays.longest);
      const surprise = seen.rewards[step]! - inner(paid, rules.bounds.arrays["reward_centre"]!.data);
      const reward = clipInterval(surprise, pays.low, pays.high);
      rows.push(packedSquare(features), features.map((entry) => entry * target));
      rows.push(packedSquare(rewardFeatures), rewardFeatures.map((entry) => entry * reward));
    }
    return { shape: this.shape(sizes, rules.bounds), data: Float64Array.from(rows.flatMap((row) => [...row])) };
  }

  /** Grams of features of norm L are at most L² in every packed entry, moments at most L·V. */
  largest(sizes: Dimensions, bounds: Bounds): Floats {
    const rows: number[] = [];
    for (let step = 0; step < sizes.horizon; step++) {
      const { moves, pays } = boundsAt(bounds, step);
      for (const [{ longest, reach }, size] of [[moves, sizes.d1], [pays, contrastsOf(bounds)]] as const) {
        rows.push(...Array<number>(packedSize(size)).fill(longest ** 2));
        rows.push(...Array<number>(size).fill(longest * reach));
      }
    }
    return { shape: this.shape(sizes, bounds), data: Float64Array.from(rows) };
  }

  /**
   * A contribution is one Gaussian release per regression and step.
   *
   * If the matrix has noise σ and the vector σ/w, two users differ by at most {@link pairDistance} plus g√· for the
   * rounding to the grid g, and releases compose as μ² = Σ(Δ/σ)². Nonnegative features help only with targets that are
   * nonnegative too, whatever the rules say.
   */
  strength(sizes: Dimensions, rules: Rules): number {
    const { horizon, d1 } = sizes;
    const k = contrastsOf(rules.bounds);
    const [gram1, gram2, width] = [packedSize(d1), packedSize(k), this.shape(sizes, rules.bounds)[1]!];
    let square = 0;
    for (let step = 0; step < horizon; step++) {
      const { moves, pays } = boundsAt(rules.bounds, step);
      const row = rules.noiseScale.data.subarray(step * width, (step + 1) * width);
      const part = (start: number, size: number) => least(row.subarray(start, start + size));
      const signed = rules.bounds.flags["nonnegative_rewards"]! && pays.low >= 0;
      const [moment1, start] = [part(gram1, d1), gram1 + d1];
      square += pairStrength(moves, part(0, gram1), moment1, d1, rules.grid, false) ** 2;
      square += pairStrength(pays, part(start, gram2), part(start + gram2, k), k, rules.grid, signed) ** 2;
    }
    return Math.sqrt(square);
  }
}

/** What the pairs of one regression are clipped to at one step; `reach` is the most that a target is away from 0. */
interface PairBounds { longest: number; low: number; high: number; reach: number }

function boundsAt(bounds: Bounds, step: number): { moves: PairBounds; pays: PairBounds } {
  const at = (name: (typeof PER_STEP)[number]) => bounds.arrays[name]!.data[step]!;
  const pair = (longest: number, low: number, high: number) => (
    { longest, low, high, reach: Math.max(Math.abs(low), Math.abs(high)) }
  );
  return {
    moves: pair(at("feature_bound"), at("target_low"), at("target_high")),
    pays: pair(at("reward_bound"), at("reward_low"), at("reward_high")),
  };
}

/** k: how many coordinates the reward parameter has. */
function contrastsOf(bounds: Bounds): number {
  return bounds.arrays["reward_basis"]!.shape[1]!;
}

/**
 * How far two users are apart in [x xᵀ, w v x], ‖x‖ ≤ `bound` and |v| ≤ `target`.
 *
 * With s = w²V²/L²: √2 L²(1 + s/2) if s ≤ 2, 2L²√s beyond, and √2 L²√(1 + s) if all inner products and targets are
 * nonnegative.
 */
function pairDistance(bound: number, target: number, weight: number, nonnegative: boolean): number {
  const square = bound ** 2;
  const ratio = ((weight * target) / bound) ** 2;
  if (nonnegative) return Math.SQRT2 * square * Math.sqrt(1 + ratio);
  return ratio <= 2 ? Math.SQRT2 * square * (1 + ratio / 2) : 2 * square * Math.sqrt(ratio);
}

/** μ of one regression at one step; `gram` and `moment` are the least noise scales of its two parts. */
function pairStrength(
  bounds: PairBounds, gram: number, moment: number, dimension: number, grid: number, nonnegative: boolean,
): number {
  const { longest: bound, reach: target } = bounds;
  if (bound === 0) return 0; // features clipped to nothing: matrix and vector are zero for every user
  if (!(bound > 0 && gram > 0 && moment > 0 && Number.isFinite(bound + target))) return Infinity;
  const weight = gram / moment;
  const rounding = grid * Math.sqrt(packedSize(dimension) + weight ** 2 * dimension);
  return (pairDistance(bound, target, weight, nonnegative) + rounding) / gram;
}

export const regressions: Form = new Regressions();
