// SPDX-License-Identifier: Apache-2.0
/**
 * What the forms have in common whose users act on a belief about themselves: one vector, clipped to the unit ball.
 *
 * Acting takes the user's episode so far, which only their own device may know, so that no action follows from a billboard
 * alone. A vector is formed under the reference of the round that counts it.
 */

import type { Floats, Shape } from "../arrays.js";
import type { Billboard } from "../billboard.js";
import { InvalidInput } from "../errors.js";
import type { Dimensions, Model, Rules } from "../model.js";
import type { Trajectory } from "../trajectory.js";
import { type Belief, type Form, least } from "./form.js";

export abstract class PersonalVector implements Form {
  abstract readonly name: string;
  readonly flags = [];
  readonly formedUnder = "open" as const;
  readonly remembers = true;

  /** How many numbers a vector has. */
  protected abstract numbers(sizes: Dimensions): number;

  abstract boundShapes(sizes: Dimensions): Record<string, Shape>;
  abstract versionShapes(sizes: Dimensions): Record<string, Shape>;
  abstract belief(model: Model, billboard: Billboard, likelihoods: ArrayLike<number> | null): Belief;
  abstract requireBelief(model: Model, billboard: Billboard): void;
  abstract contribution(model: Model, billboard: Billboard, seen: Trajectory): Floats;

  shape(sizes: Dimensions): Shape {
    return [1, this.numbers(sizes)];
  }

  requirePlan(): void {
    // Acting takes the model too: `requireBelief` looks at both, before an episode begins.
  }

  act(): number {
    throw new InvalidInput(
      "act", "without the episode so far", "act: 'device' where users act on a belief about themselves",
      "let the client act on the device: a server would have to be shown the whole episode for every action",
    );
  }

  /** 1: given the user's own episode so far, the action is certain. */
  probability(): number {
    return 1;
  }

  largest(sizes: Dimensions): Floats {
    return { shape: this.shape(sizes), data: new Float64Array(this.numbers(sizes)).fill(1) };
  }

  /** Two users are at most 2 apart, and g√D more after rounding, in every direction. */
  strength(sizes: Dimensions, rules: Rules): number {
    const smallest = least(rules.noiseScale.data);
    return smallest > 0 ? (2 + rules.grid * Math.sqrt(this.numbers(sizes))) / smallest : Infinity;
  }
}
