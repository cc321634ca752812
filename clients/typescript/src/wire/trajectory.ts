// SPDX-License-Identifier: Apache-2.0
/**
 * One user's episode as numbers, whatever they are: their values are clipped, never refused.
 *
 * A refusal that depends on a user's data is itself a release (their place would go to another, or the server would see that
 * nothing came). So only the public *form* of an episode may be refused: its lengths.
 */

import { clipInterval } from "./clipping.js";
import { InvalidInput } from "./errors.js";

/** One episode: `states` (H + 1), `actions` (H), `rewards` (H); of a stay those of its visits, one after another. */
export interface Trajectory {
  readonly states: readonly number[];
  readonly actions: readonly number[];
  readonly rewards: readonly number[];
  /** Its user's 0-based place in their round, where what they are served depends on it; it is public. */
  readonly place: number | null;
}

export interface Sizes {
  readonly horizon: number;
  readonly states: number;
  readonly actions: number;
}

/** The episode with every value in range: what is not a state, an action or a reward is clipped to one. */
export function wellFormed(sizes: Sizes, seen: Trajectory): Trajectory {
  const { horizon } = sizes;
  for (const [field, wanted] of [["states", horizon + 1], ["actions", horizon], ["rewards", horizon]] as const) {
    if (seen[field].length !== wanted) {
      throw new InvalidInput(`${field}.length`, seen[field].length, String(wanted), "send one whole episode of H steps");
    }
  }
  return {
    states: seen.states.map((state) => clipIndex(state, sizes.states)),
    actions: seen.actions.map((action) => clipIndex(action, sizes.actions)),
    rewards: seen.rewards.map((reward) => clipReward(reward)),
    place: seen.place,
  };
}

/** A reward within [0, 1]; what is missing or no number counts as 0. */
export function clipReward(reward: unknown): number {
  return clipInterval(reward, 0, 1);
}

/** An index within 0 … `below` − 1; what is missing or no number counts as 0, and a fraction is dropped. */
export function clipIndex(index: unknown, below: number): number {
  return Math.trunc(clipInterval(index, 0, below - 1));
}
