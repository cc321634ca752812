// SPDX-License-Identifier: Apache-2.0
/**
 * The form `counts`: which cells of three tables an episode adds to.
 *
 * At step h a user in state s who takes action a, earns r and moves on to s′ adds 1 to N_h(s, a), 1 to N_h(s, a, s′) and r
 * to R_h(s, a). The three tables of a step travel as one row of D = SA(S + 2) numbers: visits, transitions, rewards. A
 * contribution does not depend on what was published.
 *
 * Formal guarantee. Whatever the trajectory, even one that names states that do not exist or rewards that are no numbers,
 * a contribution has at most one entry of 1 in the visits and one in the transitions of every step, and at most one entry
 * in the rewards, within [0, 1]: steps outside the tables are dropped and rewards clipped. Two users' contributions are
 * therefore at most √2 apart in each table of each step.
 */

import type { Floats, Shape } from "../arrays.js";
import type { Billboard } from "../billboard.js";
import type { Dimensions, Model, Rules } from "../model.js";
import { type Trajectory, clipReward } from "../trajectory.js";
import { type Form, least } from "./form.js";

class VisitCounts implements Form {
  readonly name = "counts";
  readonly flags = [];
  readonly formedUnder = "served";

  boundShapes(): Record<string, Shape> {
    return {};
  }

  shape({ horizon, states, actions }: Dimensions): Shape {
    return [horizon, states * actions * (states + 2)];
  }

  versionShapes(): Record<string, Shape> {
    return {};
  }

  requirePlan(): void {} // users act by the policy alone, which was checked

  act(billboard: Billboard, step: number, state: number, _place: number | null, uniform: number): number {
    return billboard.act(step, state, uniform);
  }

  probability(billboard: Billboard, step: number, state: number, _place: number | null, action: number): number {
    return billboard.probabilityByPolicy(step, state, action);
  }

  contribution({ sizes }: Model, _billboard: Billboard, seen: Trajectory): Floats {
    const { horizon, states, actions } = sizes;
    const shape = this.shape(sizes);
    const [pairs, width] = [states * actions, shape[1]!];
    const data = new Float64Array(horizon * width);
    for (let step = 0; step < horizon; step++) {
      const [here, there, action] = [seen.states[step]!, seen.states[step + 1]!, seen.actions[step]!];
      if (!(isIndex(here, states) && isIndex(there, states) && isIndex(action, actions))) continue;
      const [row, pair] = [step * width, here * actions + action];
      data[row + pair] = 1;
      data[row + pairs + pair * states + there] = 1;
      data[row + pairs * (states + 1) + pair] = clipReward(seen.rewards[step]!);
    }
    return { shape, data };
  }

  largest(sizes: Dimensions): Floats {
    const [rows, width] = this.shape(sizes);
    return { shape: [rows!, width!], data: new Float64Array(rows! * width!).fill(1) };
  }

  /** One Gaussian release per table and step; two users are at most √2 apart, and √2·g more after rounding. */
  strength(sizes: Dimensions, rules: Rules): number {
    const { states, actions } = sizes;
    const [pairs, width] = [states * actions, this.shape(sizes)[1]!];
    let square = 0;
    for (let step = 0; step < sizes.horizon; step++) {
      const row = rules.noiseScale.data.subarray(step * width, (step + 1) * width);
      for (const [start, end] of [[0, pairs], [pairs, pairs * (states + 1)], [pairs * (states + 1), width]]) {
        const smallest = least(row.subarray(start, end));
        if (!(smallest > 0)) return Infinity;
        square += ((Math.SQRT2 * (1 + rules.grid)) / smallest) ** 2;
      }
    }
    return Math.sqrt(square);
  }
}

function isIndex(number: number, below: number): boolean {
  return Number.isInteger(number) && number >= 0 && number < below;
}

export const counts: Form = new VisitCounts();
