// SPDX-License-Identifier: Apache-2.0
/**
 * The form `factors`: the user is shown items by their own tastes, and sends one vector, clipped as a whole.
 *
 * A user has a hidden vector f; item a pays c_a + λ_aᵀf and scatter of variance ψ_a. The rules carry c, λ, ψ and the bonus b,
 * which never change; a billboard carries the mean μ of users' vectors, a whitening A and a radius R. A device starts at
 * N(μ, I), learns from every reward in closed form, m += g(r − c_a − λ_aᵀm)/v, C −= ggᵀ/v, g = Cλ_a, v = λ_aᵀg + ψ_a, shows the
 * item not shown yet of the highest expected reward plus b standard deviations of it ({@link TasteBelief}), and at the end
 * sends clip((m − μ)A / R).
 *
 * Formal guarantee. Whatever model, billboard and trajectory are, the contribution has 2-norm at most 1: it is clipped to
 * the unit ball, last. The belief is no part of it: it is a function of what is published and of the user's own episode, and
 * stays where it is computed.
 */

import type { Floats, Shape } from "../arrays.js";
import type { Billboard } from "../billboard.js";
import { clipNorm } from "../clipping.js";
import { InvalidInput } from "../errors.js";
import type { Dimensions, Model } from "../model.js";
import { type Trajectory, clipIndex, clipReward } from "../trajectory.js";
import { type Belief, inBasis, inner, requireVersion } from "./form.js";
import { PersonalVector } from "./personal.js";

/** What a device knows of its own user's tastes, and which item it shows next. It must not leave the device. */
export class TasteBelief implements Belief {
  private readonly taste: Taste;
  private readonly shown: Set<number> = new Set();
  private readonly seen: number[] = [];

  /** `earlier` are items and rewards of earlier visits, by turns, where a device remembers them. */
  constructor(private readonly model: Model, billboard: Billboard, earlier: ArrayLike<number> | null = null) {
    this.taste = new Taste(model, billboard);
    for (let pair = 0; earlier !== null && pair + 1 < earlier.length; pair += 2) {
      this.observe(0, clipIndex(earlier[pair], model.sizes.actions), clipReward(earlier[pair + 1]));
    }
    this.shown.clear(); // an item is shown once a visit
  }

  /** The item to show next: the best that was not shown yet. */
  act(): number {
    const { bounds } = this.model.rules;
    const intercepts = bounds.arrays["intercepts"]!.data;
    const bonus = bounds.arrays["bonus"]!.data[0]!;
    let [best, most] = [0, -Infinity];
    for (let item = 0; item < intercepts.length; item++) {
      if (this.shown.has(item)) continue;
      const loading = loadingOf(this.model, item);
      let score = intercepts[item]! + inner(loading, this.taste.mean);
      if (bonus !== 0) score += bonus * Math.sqrt(Math.max(inner(this.taste.reach(loading), loading), 0));
      if (score > most) [best, most] = [item, score];
    }
    return best;
  }

  /** Take the reward, in [0, 1], of an item. */
  observe(_state: number, action: number, reward: number): void {
    this.taste.observe(action, reward);
    this.shown.add(action);
    this.seen.push(action, reward);
  }

  /** The expected vector of the user, to show them on the device. It must not leave it. */
  get summary(): Float64Array {
    return this.taste.mean.slice();
  }

  /** Items and rewards so far, by turns, for the device's own memory. They must not leave the device. */
  get likelihoods(): Float64Array {
    return Float64Array.from(this.seen);
  }
}

/** Mean and covariance of a user's vector. */
class Taste {
  readonly mean: Float64Array;
  private readonly covariance: Float64Array;

  constructor(private readonly model: Model, billboard: Billboard) {
    this.mean = Float64Array.from(billboard.part("mean").data);
    const size = this.mean.length;
    this.covariance = Float64Array.from({ length: size * size }, (_, entry) => (entry % (size + 1) === 0 ? 1 : 0));
  }

  /** Cλ. */
  reach(loading: Float64Array): Float64Array {
    const size = this.mean.length;
    return loading.map((_, row) => inner(this.covariance.subarray(row * size, (row + 1) * size), loading));
  }

  observe(item: number, reward: number): void {
    const { arrays } = this.model.rules.bounds;
    const [loading, size] = [loadingOf(this.model, item), this.mean.length];
    const reach = this.reach(loading);
    const variance = inner(loading, reach) + arrays["noise"]!.data[item]!;
    const surprise = reward - arrays["intercepts"]!.data[item]! - inner(loading, this.mean);
    for (let row = 0; row < size; row++) {
      this.mean[row]! += (reach[row]! * surprise) / variance;
      for (let column = 0; column < size; column++) {
        this.covariance[row * size + column]! -= (reach[row]! * reach[column]!) / variance;
      }
    }
  }
}

function loadingOf(model: Model, item: number): Float64Array {
  const { data, shape } = model.rules.bounds.arrays["loadings"]!;
  return data.subarray(item * shape[1]!, (item + 1) * shape[1]!);
}

class TasteVector extends PersonalVector {
  readonly name = "factors";

  protected numbers({ d2 }: Dimensions): number {
    return d2 - 1;
  }

  boundShapes(sizes: Dimensions): Record<string, Shape> {
    const { actions } = sizes;
    return { intercepts: [actions], loadings: [actions, this.numbers(sizes)], noise: [actions], bonus: [] };
  }

  versionShapes(sizes: Dimensions): Record<string, Shape> {
    const size = this.numbers(sizes);
    return { mean: [size], whiten: [size, size], radius: [] };
  }

  belief(model: Model, billboard: Billboard, earlier: ArrayLike<number> | null): TasteBelief {
    return new TasteBelief(model, billboard, earlier);
  }

  requireBelief(model: Model, billboard: Billboard): void {
    requireVersion(model, billboard);
    const remedy = "ask the service's operator";
    const { actions, horizon } = model.sizes;
    if (actions < horizon) throw new InvalidInput("actions", actions, `at least ${horizon}, one a step`, remedy);
    const { arrays } = model.rules.bounds;
    const bounds = ["intercepts", "loadings", "noise", "bonus"].map((name) => [`report.${name}`, arrays[name]!] as const);
    for (const [name, { data }] of [...bounds, ["billboard.report.mean", billboard.part("mean")] as const]) {
      if (!data.every(Number.isFinite)) throw new InvalidInput(name, "numbers that are not finite", "finite ones", remedy);
    }
    if (!arrays["noise"]!.data.every((variance) => variance > 0)) {
      throw new InvalidInput("report.noise", "a variance that is none", "above 0", remedy);
    }
  }

  contribution(model: Model, billboard: Billboard, seen: Trajectory): Floats {
    requireVersion(model, billboard);
    const taste = new Taste(model, billboard);
    for (const [step, item] of seen.actions.entries()) taste.observe(item, seen.rewards[step]!);
    const mean = billboard.part("mean").data;
    const radius = billboard.part("radius").data[0]!;
    // A hostile billboard may make infinities; the clip makes them nothing.
    const away = taste.mean.map((entry, factor) => entry - mean[factor]!);
    const vector = inBasis(away, billboard.part("whiten"), 1).map((entry) => entry / radius);
    return { shape: this.shape(model.sizes), data: clipNorm(vector, 1) };
  }
}

export const factors = new TasteVector();
