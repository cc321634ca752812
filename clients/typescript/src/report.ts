// SPDX-License-Identifier: Apache-2.0
/**
 * What a device sends in the local model: its contribution on an integer grid, plus its own noise.
 *
 * Formal guarantee. Whatever the model, the billboard and the trajectory, a contribution is within its bounds before
 * anything is added (`wire/forms`), and every coordinate gets noise of its own. Whether the noise is *enough* is checked
 * in `wire/promise`, on the device too.
 */

import type { Clipped } from "./boundary.js";
import { draw } from "./discrete_gaussian.js";
import type { Integers } from "./wire/arrays.js";
import type { Billboard } from "./wire/billboard.js";
import type { Model } from "./wire/model.js";
import type { Trajectory } from "./wire/trajectory.js";

/**
 * The report that may leave the device; of a user who shows nothing (null), noise alone.
 *
 * Fresh noise each time: call it once per episode, keep the result.
 */
export function noisedReport(model: Model, billboard: Billboard, seen: Clipped<Trajectory> | null): Integers {
  const { shape, data: noise } = draw(model.rules.noiseScale, model.rules.grid);
  if (seen === null) return { shape, data: noise };
  return seen.release((shown) => {
    const steps = model.steps(billboard, shown).data;
    return { shape, data: noise.map((drawn, place) => drawn + steps[place]!) };
  }).value;
}
