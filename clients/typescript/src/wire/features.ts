// SPDX-License-Identifier: Apache-2.0
/** What a model says about one pair of state and action. */

import type { Model } from "./model.js";

/** ψ at a pair of state and action: one row per transition feature. */
export function transitionRows(model: Model, state: number, action: number): Float64Array[] {
  const { states, actions, d1 } = model.sizes;
  const entries = model.transitionFeatures.shape[3]!;
  return Array.from({ length: d1 }, (_, feature) => {
    const start = ((feature * states + state) * actions + action) * entries;
    return model.transitionFeatures.data.subarray(start, start + entries);
  });
}

/** φ at a pair of state and action. */
export function rewardRow(model: Model, state: number, action: number): Float64Array {
  const { states, actions, d2 } = model.sizes;
  return Float64Array.from(
    { length: d2 },
    (_, feature) => model.rewardFeatures.data[(feature * states + state) * actions + action]!,
  );
}

/** `values` `(S)` of the states that may follow a pair, in the order of {@link transitionRows}. */
export function followingValues(model: Model, values: Float64Array, state: number, action: number): Float64Array {
  const { successors, sizes } = model;
  if (successors === null) return values;
  const entries = successors.shape[2]!;
  const start = (state * sizes.actions + action) * entries;
  return Float64Array.from(successors.data.subarray(start, start + entries), (next) => values[next]!);
}
