// SPDX-License-Identifier: Apache-2.0
/**
 * The form `kinds`: the user acts on a belief about their own kind, and sends one vector, clipped as a whole.
 *
 * Candidate z of the model (transitions and rewards together) is the law of kind z = 1 … M; the *blend* of them, with
 * public shares that change from version to version, is one more kind, the last. The rules carry an orthonormal sum-zero
 * basis B, the optimal tables Q_z of the M kinds and the total of reward weights; a billboard carries the shares w, the
 * blend's shares and table, a whitening A and a radius R. A device adds up ℓ_z = Σ log p_z(r, s′ | s, a), believes
 * b_z ∝ w_z e^{ℓ_z}, acts by argmax_a Σ_z b_z Q_z(s, a) ({@link Belief}), and at the end sends clip(BᵀL A / (R ⟨w, L⟩))
 * with L = e^ℓ. Where a stay of several visits is one contribution, ℓ is the sum over all of them, and the clip is of the
 * whole.
 *
 * Formal guarantee. Whatever model, billboard and trajectory are, the contribution has 2-norm at most 1: it is clipped to
 * the unit ball, last. Two users are therefore at most 2 apart, and g√D more after rounding to a grid g. The belief is no
 * part of it: it is a function of what is published and of the user's own episode, and stays where it is computed.
 */

import type { Floats, Shape } from "../arrays.js";
import type { Billboard } from "../billboard.js";
import { clipNorm } from "../clipping.js";
import { InvalidInput } from "../errors.js";
import type { Dimensions, Model } from "../model.js";
import type { Trajectory } from "../trajectory.js";
import { type Belief as Known, inBasis, requireVersion } from "./form.js";
import { PersonalVector } from "./personal.js";

/** Added to probabilities before their logarithm: what a law calls impossible is very unlikely, and no more. */
const LEAST = 1e-9;

/** What a device knows of its own user: ℓ of the episode so far, and how to act on it. It must not leave the device. */
export class Belief implements Known {
  private readonly shares: Float64Array;
  private readonly known: Float64Array;

  /** `likelihoods` is the sum of earlier episodes, where a device remembers them. */
  constructor(
    protected readonly model: Model, protected readonly billboard: Billboard, likelihoods: ArrayLike<number> | null = null,
  ) {
    this.shares = billboard.part("shares").data;
    const usable = likelihoods !== null && likelihoods.length === this.shares.length;
    this.known = usable ? Float64Array.from(likelihoods) : new Float64Array(this.shares.length);
  }

  /** The action at 0-based `step` in `state`: the best on average over the belief. */
  act(step: number, state: number): number {
    return this.chosen(step, state, this.probabilities);
  }

  protected chosen(step: number, state: number, chances: Float64Array): number {
    const { d1, states, actions } = this.model.sizes;
    const tables = this.model.rules.bounds.arrays["tables"]!.data;
    const blend = this.billboard.part("blend_table").data;
    let [best, most] = [0, -Infinity];
    for (let action = 0; action < actions; action++) {
      let score = chances[d1]! * blend[(step * states + state) * actions + action]!;
      for (let kind = 0; kind < d1; kind++) {
        score += chances[kind]! * tables[((step * d1 + kind) * states + state) * actions + action]!;
      }
      if (score > most) [best, most] = [action, score];
    }
    return best;
  }

  /** Take what followed an action: a reward in [0, 1] and a state, in range as clips leave them. */
  observe(state: number, action: number, reward: number, following: number): void {
    addLikelihoods(this.known, this.model, this.billboard, state, action, reward, following);
  }

  /** b, the blend last, to show the user on the device. It must not leave it. */
  get probabilities(): Float64Array {
    const weights = scaled(this.known).map((likelihood, kind) => likelihood * this.shares[kind]!);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return weights.map((weight) => weight / total);
  }

  /** {@link probabilities}. */
  get summary(): Float64Array {
    return this.probabilities;
  }

  /** ℓ, for the device's own memory. It must not leave the device. */
  get likelihoods(): Float64Array {
    return this.known.slice();
  }
}

export class KindVector extends PersonalVector {
  readonly name: string = "kinds";
  readonly stays: boolean = true;

  protected numbers({ d1 }: Dimensions): number {
    return d1;
  }

  boundShapes({ horizon, states, actions, d1 }: Dimensions): Record<string, Shape> {
    return { basis: [d1 + 1, d1], tables: [horizon, d1, states, actions], reward_total: [] };
  }

  versionShapes({ horizon, states, actions, d1 }: Dimensions): Record<string, Shape> {
    return { shares: [d1 + 1], blend: [d1], blend_table: [horizon, states, actions], whiten: [d1, d1], radius: [] };
  }

  belief(model: Model, billboard: Billboard, likelihoods: ArrayLike<number> | null): Belief {
    return new Belief(model, billboard, likelihoods);
  }

  /**
   * Refuse arrays that are missing or misshapen, shares that are none and plans without numbers: found out in the middle
   * of an episode, they would say where a user was.
   */
  requireBelief(model: Model, billboard: Billboard): void {
    requireVersion(model, billboard);
    const { d1, d2 } = model.sizes;
    if (d1 !== d2) throw new InvalidInput("reward_features", d2, `${d1}, as many as kinds`, "ask the operator");
    const remedy = "ask the service's operator";
    const shares = ["shares", "blend"].map((name) => [`billboard.report.${name}`, billboard.part(name)] as const);
    for (const [name, { data }] of [...Object.entries(this.planOf(model, billboard)), ...shares]) {
      if (!data.every(Number.isFinite)) throw new InvalidInput(name, "numbers that are not finite", "finite ones", remedy);
    }
    for (const [name, { data }] of shares) {
      if (!(data.every((share) => share >= 0) && data.some((share) => share > 0))) {
        throw new InvalidInput(name, "no shares", "at least 0", remedy);
      }
    }
  }

  /** What users act by, under the names that it is published by. */
  planOf(model: Model, billboard: Billboard): Record<string, Floats> {
    return {
      "report.tables": model.rules.bounds.arrays["tables"]!, "billboard.report.blend_table": billboard.part("blend_table"),
    };
  }

  contribution(model: Model, billboard: Billboard, seen: Trajectory): Floats {
    requireVersion(model, billboard);
    const { d1, horizon } = model.sizes;
    const known = new Float64Array(d1 + 1);
    for (let step = 0; step < horizon * model.rules.visits; step++) {
      const place = step + Math.floor(step / horizon); // a visit has one state more than steps
      const [here, there] = [seen.states[place]!, seen.states[place + 1]!];
      addLikelihoods(known, model, billboard, here, seen.actions[step]!, seen.rewards[step]!, there);
    }
    const likelihoods = scaled(known);
    const shares = billboard.part("shares").data;
    const total = likelihoods.reduce((sum, likelihood, kind) => sum + likelihood * shares[kind]!, 0);
    const ratios = likelihoods.map((likelihood) => likelihood / total);
    const directions = inBasis(ratios, model.rules.bounds.arrays["basis"]!, 1);
    const radius = billboard.part("radius").data[0]!;
    // A hostile billboard may make infinities; the clip makes them nothing.
    const vector = inBasis(directions, billboard.part("whiten"), 1).map((entry) => entry / radius);
    return { shape: [1, d1], data: clipNorm(vector, 1) };
  }
}

/** Refuse what users of a model could not act on. */
export function requireBelief(model: Model, billboard: Billboard): void {
  model.rules.form.requireBelief?.(model, billboard);
}

/** e^ℓ, scaled so that the largest is 1. */
function scaled(known: Float64Array): Float64Array {
  const largest = known.reduce((most, one) => (one > most || Number.isNaN(one) ? one : most), -Infinity);
  return known.map((one) => Math.exp(one - largest));
}

/** ℓ_z += log p_z(r, s′ | s, a) of every kind and, last, of the blend; a reward counts as that share of a success. */
function addLikelihoods(
  known: Float64Array, model: Model, billboard: Billboard, state: number, action: number, reward: number, following: number,
): void {
  const { states, actions, d1 } = model.sizes;
  const blend = billboard.part("blend").data;
  const total = model.rules.bounds.arrays["reward_total"]!.data[0]!;
  const entries = model.transitionFeatures.shape[3]!;
  let [blendChance, blendMean] = [0, 0];
  for (let kind = 0; kind < d1; kind++) {
    const pair = (kind * states + state) * actions + action;
    const chance = chanceOf(model, pair * entries, (state * actions + action) * entries, entries, following);
    const mean = model.rewardFeatures.data[pair]! * total;
    blendChance += chance * blend[kind]!;
    blendMean += mean * blend[kind]!;
    known[kind]! += logLikelihood(chance, mean, reward);
  }
  known[d1]! += logLikelihood(blendChance, blendMean, reward);
}

function chanceOf(model: Model, row: number, listed: number, entries: number, following: number): number {
  const { transitionFeatures, successors } = model;
  if (successors === null) return transitionFeatures.data[row + following]!;
  let chance = 0;
  for (let entry = 0; entry < entries; entry++) {
    if (successors.data[listed + entry] === following) chance += transitionFeatures.data[row + entry]!;
  }
  return chance;
}

function logLikelihood(chance: number, mean: number, reward: number): number {
  const paid = reward * Math.log(mean + LEAST) + (1 - reward) * Math.log(1 - mean + LEAST);
  return paid + Math.log(chance + LEAST);
}

export const kinds = new KindVector();
