// SPDX-License-Identifier: Apache-2.0
/**
 * The form `score-start`: the vector of the form `score`, and where the user began.
 *
 * For deployments that do not know beforehand where users begin. With v the vector of `score` and e the indicator of their
 * first state, a contribution is (√(1 − τ) clip(v), √τ clip(e)), the rules carrying τ.
 *
 * Formal guarantee. Both parts are clipped to the unit ball, so that the contribution has the squared norm
 * (1 − τ) + τ = 1 at the most, whatever model, billboard and trajectory are. Two users are therefore at most 2 apart, and
 * g√D more after rounding to a grid g, as in the form `score`.
 */

import type { Floats, Shape } from "../arrays.js";
import type { Billboard } from "../billboard.js";
import { clipNorm } from "../clipping.js";
import { InvalidInput } from "../errors.js";
import type { Dimensions, Model } from "../model.js";
import type { Trajectory } from "../trajectory.js";
import type { Bounds, Form } from "./form.js";
import { ScoreVector } from "./score.js";

class ScoreStart extends ScoreVector {
  override readonly name: string = "score-start";
  override readonly stays = false;

  override boundShapes(sizes: Dimensions): Record<string, Shape> {
    return { ...super.boundShapes(sizes), start_share: [] };
  }

  /** The numbers of `score`, and one for every state. */
  override shape(sizes: Dimensions, bounds: Bounds): Shape {
    startShare(bounds);
    return [1, super.shape(sizes, bounds)[1]! + sizes.states];
  }

  override contribution(model: Model, billboard: Billboard, seen: Trajectory): Floats {
    const share = startShare(model.rules.bounds);
    const start = new Float64Array(model.sizes.states);
    start[seen.states[0]!] = 1;
    const [weight, startWeight] = [Math.sqrt(1 - share), Math.sqrt(share)];
    const data = Float64Array.from([
      ...super.contribution(model, billboard, seen).data.map((entry) => weight * entry),
      ...clipNorm(start, 1).map((entry) => startWeight * entry),
    ]);
    return { shape: [1, data.length], data };
  }
}

/** τ, the share of the squared length that first states have; the clip would bound nothing with another number. */
function startShare(bounds: Bounds): number {
  const share = bounds.arrays["start_share"]!.data[0]!;
  if (!(share > 0 && share < 1)) {
    throw new InvalidInput("report.start_share", share, "in (0, 1)", "ask the service's operator");
  }
  return share;
}

export const scoreStart: Form = new ScoreStart();
