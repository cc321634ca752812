// SPDX-License-Identifier: Apache-2.0
/**
 * Checks of published plans, on receipt: which actions there are and with what probabilities.
 *
 * A plan is public, and so is its refusal. Found out in the middle of an episode, an action that there is not would stop
 * those users only who come to its state, and a hostile service would see who they are.
 */

import { type Floats, fits, type Shape } from "./arrays.js";
import { InvalidInput } from "./errors.js";

const REMEDY = "ask the service's operator";

/** How far published probabilities of a state may be from adding up to 1: they may come from single precision. */
const ROUNDING = 1e-5;

/** `array`, if it is there and has this shape. */
export function requireShape(field: string, array: Floats | undefined, shape: Shape): Floats {
  if (array === undefined || !fits(array.shape, shape)) {
    const kind = array === undefined ? "missing" : JSON.stringify(array.shape);
    throw new InvalidInput(field, kind, `of shape ${JSON.stringify(shape)}`, REMEDY);
  }
  return array;
}

/** Refuse a plan that names an action that there is not: every entry is a whole number from 0 to `actions` − 1. */
export function requireActions(field: string, plan: Floats, actions: number): void {
  for (const action of plan.data) {
    if (!(Number.isInteger(action) && action >= 0 && action < actions)) {
      throw new InvalidInput(field, "an action that there is not", `0 to ${actions - 1}`, REMEDY);
    }
  }
}

/** Refuse what are no probabilities of `actions` actions, on the last axis. */
export function requireProbabilities(field: string, chances: Floats, actions: number): void {
  for (let start = 0; start < chances.data.length; start += actions) {
    const row = chances.data.subarray(start, start + actions);
    const sum = row.reduce((total, chance) => total + chance, 0);
    if (!(row.every((chance) => chance >= 0 && chance <= 1) && Math.abs(sum - 1) <= ROUNDING)) {
      throw new InvalidInput(field, "no probabilities", "in [0, 1], with sum 1 in every state", REMEDY);
    }
  }
}

/** Refuse what is not one whole number from 0 to `most`. */
export function requireWhole(field: string, number: Floats, most: number): void {
  const value = number.data[0]!;
  if (!(Number.isInteger(value) && value >= 0 && value <= most)) {
    throw new InvalidInput(field, "something else", `a whole number from 0 to ${most}`, REMEDY);
  }
}
