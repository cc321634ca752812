// SPDX-License-Identifier: Apache-2.0
/**
 * What a device sends to a shuffler: its statistics as ones among messages, hidden by coins that all users flip.
 *
 * The protocol is that of `wire/shuffle_rules`. Of a user's 2m + c one-bit messages for a coordinate only their number and
 * the number of ones matter, so both are formed directly: x + m ones of the 2m that say their value x = ⌊s/g + v⌋, and as
 * many as their c coins gave. v and the coins come from the operating system's entropy.
 *
 * What these numbers reveal. By themselves, nearly everything: one user's few coins do not hide them. They are for the
 * shuffler alone. All other parties see sums over a round.
 */

import type { Clipped } from "./boundary.js";
import type { Integers } from "./wire/arrays.js";
import type { Billboard } from "./wire/billboard.js";
import { InvalidInput } from "./wire/errors.js";
import { roundAt } from "./wire/grid.js";
import type { Model } from "./wire/model.js";
import { coinHeads, uniform53 } from "./wire/randomness.js";
import { type ShuffleRules, type Tally, tallyOf } from "./wire/shuffle_rules.js";
import type { Trajectory } from "./wire/trajectory.js";

/**
 * A way to the shuffler. The same place may be handed over twice and counts once.
 *
 * `restores` is how often the service's store had been restored when the user came: the shuffler must throw messages away
 * that were handed over before a restore, since their users may be admitted again.
 */
export interface MessageReceiver {
  (round: number, place: number, ones: Integers, messages: Integers, restores: number): Promise<void>;
  /** Throws if it takes no messages yet; asked before a user is named to a service. */
  readonly requireStarted?: () => void;
}

/**
 * The messages of user `within` of round `number`; of a user who shows nothing (null), value 0 and their coins.
 *
 * Fresh coins each time: call it once per episode, and keep them.
 */
export function formMessages(
  model: Model, billboard: Billboard, seen: Clipped<Trajectory> | null, number: number, within: number,
): Tally {
  const rules = requireShuffle(model);
  const coins = rules.coinsAt(number, within);
  const { shape } = coins;
  const mixed = (values: BigInt64Array): Tally => {
    const heads = coins.data.map((count) => BigInt(coinHeads(Number(count))));
    return tallyOf({ shape, data: values }, rules.reach, { shape, data: heads }, coins);
  };
  if (seen === null) return mixed(new BigInt64Array(coins.data.length));
  return seen.release((shown) => {
    const statistics = model.contribution(billboard, shown);
    const steps = roundAt(statistics, model.rules.grid, statistics.data.map(uniform53)).data;
    // Clipping kept it there already; a service's error must not matter.
    return mixed(steps.map((step, i) => within64(step, rules.reach.data[i]!)));
  }).value;
}

/** The rules for messages; refused if there are none, or a number that can differ is hidden by no coin. */
export function requireShuffle(model: Model): ShuffleRules {
  const rules = model.rules.shuffle;
  if (rules === null) {
    throw new InvalidInput("report.shuffle", null, "given in the shuffle model", "ask the service's operator");
  }
  rules.requireHiding();
  return rules;
}

function within64(value: bigint, reach: bigint): bigint {
  return value > reach ? reach : value < -reach ? -reach : value;
}
