// SPDX-License-Identifier: Apache-2.0
/**
 * The form `score`: one vector per user, clipped as a whole.
 *
 * A billboard of this form carries, beside the greedy policy: the explorers' policy and how many of a round's first places
 * explore (at random in the first round); V of either plan, framed to [−1, 1]; the reference (θ₀, θ_r0); whitening
 * matrices W; and the radius R. At every step an episode adds Bᵀφ_V(s, a) (V(s′) − ⟨φ_V, θ₀⟩) to the transition part (or,
 * with `likelihood`, Bᵀψ(s′|s, a)/⟨ψ(s′|s, a), θ₀⟩) and B_rᵀϕ (r − ⟨ϕ, θ_r0⟩) to the reward part. Steps are summed
 * (`pooled`) or concatenated, the parts multiplied by W and divided by R.
 *
 * Sums in different coordinates do not add up, so a vector is formed under the reference of the round that *counts* it and
 * not of the version that its user was served.
 *
 * Formal guarantee. Whatever model, billboard and trajectory are, the contribution has 2-norm at most 1, by the clip at
 * the end of {@link ScoreVector.contribution}. Two users are therefore at most 2 apart, and g√D more after rounding to a
 * grid g.
 */

import { ANY, type Floats, type Shape } from "../arrays.js";
import type { Billboard } from "../billboard.js";
import { clipNorm } from "../clipping.js";
import { followingValues, rewardRow, transitionRows } from "../features.js";
import type { Dimensions, Model, Rules } from "../model.js";
import { requireActions, requireShape, requireWhole } from "../plans.js";
import { type Trajectory, clipIndex } from "../trajectory.js";
import { type Bounds, type Form, inBasis, inner, least, requireVersion } from "./form.js";

const SMALLEST = 1e-300;
const MOST_USERS = 2 ** 53;

export class ScoreVector implements Form {
  readonly name: string = "score";
  readonly flags = ["pooled", "likelihood"];
  readonly stays: boolean = true;
  readonly formedUnder = "open" as const;

  boundShapes({ d1, d2 }: Dimensions): Record<string, Shape> {
    return { basis: [d1, ANY], reward_basis: [d2, ANY] };
  }

  /** One row of D numbers: transitions of all steps but the last, which leads to nothing, and rewards of all. */
  shape(sizes: Dimensions, bounds: Bounds): Shape {
    const { moving, paying, k, r } = groupsOf(sizes, bounds);
    return [1, moving * k + paying * r];
  }

  versionShapes(sizes: Dimensions, bounds: Bounds): Record<string, Shape> {
    const plan = [sizes.horizon, sizes.states];
    const { moving, paying, k, r } = groupsOf(sizes, bounds);
    return {
      curious: plan, framed_values: plan, framed_hopes: plan, explorers: [], at_random: [],
      theta: [ANY, sizes.d1], reward_theta: [ANY, sizes.d2],
      whiten: [moving, k, k], whiten_rewards: [paying, r, r], radius: [],
    };
  }

  requirePlan(billboard: Billboard): void {
    const { report, horizon, states, actions } = billboard;
    const part = (name: string, shape: Shape) => requireShape(`billboard.report.${name}`, report[name], shape);
    requireActions("billboard.report.curious", part("curious", [horizon, states]), actions);
    requireWhole("billboard.report.explorers", part("explorers", []), MOST_USERS);
    requireWhole("billboard.report.at_random", part("at_random", []), 1);
  }

  act(billboard: Billboard, step: number, state: number, place: number | null, uniform: number): number {
    if (!servesExplorer(billboard, place)) return billboard.act(step, state, uniform);
    if (billboard.part("at_random").data[0]) return clipIndex(uniform * billboard.actions, billboard.actions);
    return billboard.floored(curious(billboard, step, state), uniform);
  }

  probability(
    billboard: Billboard, step: number, state: number, place: number | null, action: number,
  ): number {
    if (!servesExplorer(billboard, place)) return billboard.probabilityByPolicy(step, state, action);
    if (billboard.part("at_random").data[0]) return 1 / billboard.actions;
    return billboard.probabilityOf(curious(billboard, step, state), action);
  }

  contribution(model: Model, billboard: Billboard, seen: Trajectory): Floats {
    requireVersion(model, billboard);
    const { sizes, rules } = model;
    const { moving, paying, k, r } = groupsOf(sizes, rules.bounds);
    const framed = billboard.part(servesExplorer(billboard, seen.place) ? "framed_hopes" : "framed_values");
    const transitions = new Float64Array(moving * k);
    const rewards = new Float64Array(paying * r);
    for (let at = 0; at < sizes.horizon * rules.visits; at++) {
      const step = at % sizes.horizon;
      const values = framed.data.subarray(step * sizes.states, (step + 1) * sizes.states);
      const seenHere = seenAt(seen, at, sizes.horizon);
      const moved = this.transitionSurprise(model, billboard, values, seenHere, step);
      const paid = this.rewardSurprise(model, billboard, seenHere, step);
      const pooled = rules.bounds.flags["pooled"];
      addTo(transitions, moved, pooled ? 0 : step * k);
      addTo(rewards, paid, pooled ? 0 : step * r);
    }
    const radius = billboard.part("radius").data[0]!;
    const parts = [
      ...whitened(billboard.part("whiten"), transitions, moving, k),
      ...whitened(billboard.part("whiten_rewards"), rewards, paying, r),
    ];
    // A hostile billboard may make infinities; the clip makes them nothing.
    const vector = clipNorm(Float64Array.from(parts, (entry) => entry / radius), 1);
    return { shape: [1, vector.length], data: vector };
  }

  largest(sizes: Dimensions, bounds: Bounds): Floats {
    const shape = this.shape(sizes, bounds);
    return { shape, data: new Float64Array(shape[1]!).fill(1) };
  }

  /** Two users are at most 2 apart, and g√D more after rounding, in every direction. */
  strength(sizes: Dimensions, rules: Rules): number {
    const smallest = least(rules.noiseScale.data);
    if (!(smallest > 0)) return Infinity;
    return (2 + rules.grid * Math.sqrt(this.shape(sizes, rules.bounds)[1]!)) / smallest;
  }

  /** What one step's move tells, in the coordinates of the basis. */
  private transitionSurprise(
    model: Model, billboard: Billboard, values: Float64Array, { here, there, action }: Seen, step: number,
  ): Float64Array {
    const theta = rowAt(billboard.part("theta"), step);
    const basis = model.rules.bounds.arrays["basis"]!;
    const rows = transitionRows(model, here, action);
    if (model.rules.bounds.flags["likelihood"]) {
      const indicator = new Float64Array(model.sizes.states);
      indicator[there] = 1;
      const chosen = followingValues(model, indicator, here, action);
      const psi = Float64Array.from(rows, (row) => inner(row, chosen));
      const stated = inner(psi, theta);
      return inBasis(psi.map((entry) => (stated > SMALLEST ? entry / stated : 0)), basis, 1);
    }
    const following = followingValues(model, values, here, action);
    const features = Float64Array.from(rows, (row) => inner(row, following));
    return inBasis(features, basis, values[there]! - inner(features, theta));
  }

  /** What one step's reward tells, in the coordinates of the reward basis. */
  private rewardSurprise(model: Model, billboard: Billboard, { here, action, reward }: Seen, step: number): Float64Array {
    const pays = rewardRow(model, here, action);
    const surprise = reward - inner(pays, rowAt(billboard.part("reward_theta"), step));
    return inBasis(pays, model.rules.bounds.arrays["reward_basis"]!, surprise);
  }
}

/** What was seen at one step. */
interface Seen {
  readonly here: number;
  readonly there: number;
  readonly action: number;
  readonly reward: number;
}

/** Step `at` of all visits of a stay; a visit has one state more than steps. */
function seenAt(seen: Trajectory, at: number, horizon: number): Seen {
  const place = at + Math.floor(at / horizon);
  return { here: seen.states[place]!, there: seen.states[place + 1]!, action: seen.actions[at]!, reward: seen.rewards[at]! };
}

/** Whether the user at this 0-based place of their round explores; one without a place does not. */
function curious(billboard: Billboard, step: number, state: number): number {
  return clipIndex(billboard.part("curious").data[step * billboard.states + state]!, billboard.actions);
}

function servesExplorer(billboard: Billboard, place: number | null): boolean {
  return place !== null && place < Math.trunc(billboard.part("explorers").data[0]!);
}

/** How many groups of steps the two parts have, and how many numbers each. */
function groupsOf({ horizon }: Dimensions, bounds: Bounds) {
  const paying = bounds.flags["pooled"] ? 1 : horizon;
  const moving = horizon === 1 ? 0 : bounds.flags["pooled"] ? 1 : horizon - 1;
  return { moving, paying, k: bounds.arrays["basis"]!.shape[1]!, r: bounds.arrays["reward_basis"]!.shape[1]! };
}

/** The row of a table for a step: a table of fewer rows holds for all later steps. */
function rowAt(table: Floats, step: number): Float64Array {
  const [rows, width] = table.shape as [number, number];
  const row = Math.min(step, rows - 1);
  return table.data.subarray(row * width, (row + 1) * width);
}

/** Add a step's numbers where its group begins; a step without a group, such as the last move, adds nothing. */
function addTo(sums: Float64Array, numbers: Float64Array, start: number): void {
  if (start + numbers.length > sums.length) return;
  numbers.forEach((number, place) => (sums[start + place]! += number));
}

/** Sums (groups · width) by group, each multiplied by its W. */
function whitened(whiten: Floats, sums: Float64Array, groups: number, width: number): number[] {
  const result: number[] = [];
  for (let group = 0; group < groups; group++) {
    const own = sums.subarray(group * width, (group + 1) * width);
    for (let row = 0; row < width; row++) {
      const start = (group * width + row) * width;
      result.push(inner(whiten.data.subarray(start, start + width), own));
    }
  }
  return result;
}

export const score: Form = new ScoreVector();
