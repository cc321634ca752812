// SPDX-License-Identifier: Apache-2.0
/**
 * The form `kinds-planned`: the form `kinds` where the plan takes into account what users will learn of themselves.
 *
 * Vectors and beliefs are those of `kinds`. A billboard carries, instead of optimal tables, for every step and state N
 * vectors α, what a course of action earns from there in each kind (the blend last), and the action that it begins with.
 * A device takes the action of the largest ⟨α, b⟩.
 *
 * Formal guarantee. That of the form `kinds`: the contribution is in the unit ball, and depends on the plan only by what
 * the user did. The plan is public.
 */

import { ANY, type Floats, type Shape } from "../arrays.js";
import type { Billboard } from "../billboard.js";
import { InvalidInput } from "../errors.js";
import type { Dimensions, Model } from "../model.js";
import { requireActions } from "../plans.js";
import { Belief, KindVector } from "./kinds.js";

/** A belief whose user acts by a plan over beliefs. It must not leave the device. */
class PlannedBelief extends Belief {
  protected override chosen(step: number, state: number, chances: Float64Array): number {
    const [vectors, choices] = [this.billboard.part("vectors").data, this.billboard.part("choices")];
    const count = choices.shape[2]!;
    const first = (step * this.model.sizes.states + state) * count;
    let [best, most] = [first, -Infinity];
    for (let place = first; place < first + count; place++) {
      let score = 0;
      for (let kind = 0; kind < chances.length; kind++) score += chances[kind]! * vectors[place * chances.length + kind]!;
      if (score > most) [best, most] = [place, score];
    }
    return choices.data[best]!;
  }
}

class PlannedKindVector extends KindVector {
  override readonly name = "kinds-planned";
  override readonly stays = false;

  override boundShapes(sizes: Dimensions): Record<string, Shape> {
    const { tables: _, ...shapes } = super.boundShapes(sizes);
    return shapes;
  }

  override versionShapes(sizes: Dimensions): Record<string, Shape> {
    const { blend_table: _, ...shapes } = super.versionShapes(sizes);
    const plan = [sizes.horizon, sizes.states, ANY];
    return { ...shapes, vectors: [...plan, sizes.d1 + 1], choices: plan };
  }

  override planOf(_model: Model, billboard: Billboard): Record<string, Floats> {
    return { "billboard.report.vectors": billboard.part("vectors") };
  }

  override requireBelief(model: Model, billboard: Billboard): void {
    super.requireBelief(model, billboard);
    const [vectors, choices] = [billboard.part("vectors"), billboard.part("choices")];
    const count = choices.shape[2]!;
    if (count === 0 || vectors.shape[2] !== count) {
      throw new InvalidInput(
        "billboard.report.choices", count, `${vectors.shape[2]}, as many as vectors, and not 0`, "ask the service's operator",
      );
    }
    requireActions("billboard.report.choices", choices, model.sizes.actions);
  }

  override belief(model: Model, billboard: Billboard, likelihoods: ArrayLike<number> | null): Belief {
    return new PlannedBelief(model, billboard, likelihoods);
  }
}

export const kindsPlanned = new PlannedKindVector();
