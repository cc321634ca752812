/**
 * The form `regressions`: packed Grams and moments of two regressions per step.
 *
 * At step h of an episode under the value function V of the version that its user was served, the pairs are (φ_V(s, a),
 * V(s′)) for the transition parameter and (ϕ(s, a), r) for the reward parameter. A contribution is one row per step: the
 * packed φφᵀ, φV, the packed ϕϕᵀ, ϕr.
 *
 * Formal guarantee. Features are clipped to their norm, targets and rewards to their interval before any product is
 * formed. How an observation is *computed* is not relied upon.
 */

import type { Floats, Shape } from "../arrays.js";
import type { Billboard } from "../billboard.js";
import { clipInterval, clipNorm } from "../clipping.js";
import { followingValues, rewardRow, transitionRows } from "../features.js";
import type { Dimensions, Model, Rules } from "../model.js";
import { packedSize, packedSquare } from "../packing.js";
import type { Trajectory } from "../trajectory.js";
import { type Bounds, type Form, inner, least, requireVersion } from "./form.js";

class Regressions implements Form {
  readonly name = "regressions";
  readonly flags = ["nonnegative_rewards"];
  readonly formedUnder = "served";

  boundShapes({ horizon }: Dimensions): Record<string, Shape> {
    return { feature_bound: [horizon], target_low: [horizon], target_high: [horizon] };
  }

  shape({ horizon, d1, d2 }: Dimensions): Shape {
    return [horizon, packedSize(d1) + d1 + packedSize(d2) + d2];
  }

  versionShapes({ horizon, states }: Dimensions): Record<string, Shape> {
    return { framed_values: [horizon, states] };
  }

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
      const { longest, low, high } = boundsAt(rules.bounds, step);
      const [here, there, action] = [seen.states[step]!, seen.states[step + 1]!, seen.actions[step]!];
      const framed = values.data.subarray(step * sizes.states, (step + 1) * sizes.states);
      const following = followingValues(model, framed, here, action);
      const products = transitionRows(model, here, action).map((row) => inner(row, following));
      const features = clipNorm(Float64Array.from(products), longest);
      const target = clipInterval(framed[there]!, low, high);
      const pays = rewardRow(model, here, action);
      const inside = rules.bounds.flags["nonnegative_rewards"] ? pays.map((pay) => Math.max(pay, 0)) : pays;
      const rewardFeatures = clipNorm(inside, 1);
      const reward = clipInterval(seen.rewards[step]!, 0, 1);
      rows.push(packedSquare(features), features.map((entry) => entry * target));
      rows.push(packedSquare(rewardFeatures), rewardFeatures.map((entry) => entry * reward));
    }
    return { shape: this.shape(sizes), data: Float64Array.from(rows.flatMap((row) => [...row])) };
  }

  /** Grams of features of norm L are at most L² in every packed entry, moments at most L·V. */
  largest(sizes: Dimensions, bounds: Bounds): Floats {
    const { horizon, d1, d2 } = sizes;
    const rows: number[] = [];
    for (let step = 0; step < horizon; step++) {
      const { longest, low, high } = boundsAt(bounds, step);
      rows.push(...Array<number>(packedSize(d1)).fill(longest ** 2));
      rows.push(...Array<number>(d1).fill(longest * Math.max(Math.abs(low), Math.abs(high))));
      rows.push(...Array<number>(packedSize(d2) + d2).fill(1));
    }
    return { shape: this.shape(sizes), data: Float64Array.from(rows) };
  }

  /**
   * A contribution is one Gaussian release per regression and step.
   *
   * If the matrix has noise σ and the vector σ/w, two users differ by at most {@link pairDistance} plus g√· for the
   * rounding to the grid g, and releases compose as μ² = Σ(Δ/σ)².
   */
  strength(sizes: Dimensions, rules: Rules): number {
    const { horizon, d1, d2 } = sizes;
    const [gram1, gram2, width] = [packedSize(d1), packedSize(d2), this.shape(sizes)[1]!];
    let square = 0;
    for (let step = 0; step < horizon; step++) {
      const { longest, low, high } = boundsAt(rules.bounds, step);
      const row = rules.noiseScale.data.subarray(step * width, (step + 1) * width);
      const part = (start: number, size: number) => least(row.subarray(start, start + size));
      const target = Math.max(Math.abs(low), Math.abs(high));
      const nonnegative = rules.bounds.flags["nonnegative_rewards"]!;
      const [moment1, start] = [part(gram1, d1), gram1 + d1];
      square += pairStrength(longest, target, part(0, gram1), moment1, d1, rules.grid, false) ** 2;
      square += pairStrength(1, 1, part(start, gram2), part(start + gram2, d2), d2, rules.grid, nonnegative) ** 2;
    }
    return Math.sqrt(square);
  }
}

function boundsAt(bounds: Bounds, step: number) {
  const [longest, low, high] = ["feature_bound", "target_low", "target_high"].map(
    (name) => bounds.arrays[name]!.data[step]!,
  );
  return { longest: longest!, low: low!, high: high! };
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
  bound: number, target: number, gram: number, moment: number, dimension: number, grid: number, nonnegative: boolean,
): number {
  if (bound === 0) return 0; // features clipped to nothing: matrix and vector are zero for every user
  if (!(bound > 0 && gram > 0 && moment > 0 && Number.isFinite(bound + target))) return Infinity;
  const weight = gram / moment;
  const rounding = grid * Math.sqrt(packedSize(dimension) + weight ** 2 * dimension);
  return (pairDistance(bound, target, weight, nonnegative) + rounding) / gram;
}

export const regressions: Form = new Regressions();
