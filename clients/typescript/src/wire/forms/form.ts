// SPDX-License-Identifier: Apache-2.0
/**
 * What a form of contributions is: how an episode becomes the one array that a user adds, and what that array reveals.
 *
 * A deployment's rules name its form. Adding one is one file beside this one and its entry in `forms/index.ts`.
 */

import { type Floats, type Shape, readFloats } from "../arrays.js";
import type { Billboard } from "../billboard.js";
import { type Content, readFlag } from "../content.js";
import type { Dimensions, Model, Rules } from "../model.js";
import { requireShape } from "../plans.js";
import type { Trajectory } from "../trajectory.js";

/** What a form clips to, by name. */
export interface Bounds {
  readonly arrays: Readonly<Record<string, Floats>>;
  readonly flags: Readonly<Record<string, boolean>>;
}

/** What a device knows of its own user, and how it acts on that. It must not leave the device. */
export interface Belief {
  /** The action at 0-based `step` in `state`. */
  act(step: number, state: number): number;
  /** Take what followed an action: a reward in [0, 1] and a state, in range as clips leave them. */
  observe(state: number, action: number, reward: number, following: number): void;
  /** What the device believes by now, to show the user there. */
  readonly summary: Float64Array;
  /** What the device's own memory keeps between visits. */
  readonly likelihoods: Float64Array;
}

/** A form of contributions. Instances hold nothing; there is one of each. */
export interface Form {
  readonly name: string;
  /** Which of its bounds are true or false; the others are arrays. */
  readonly flags: readonly string[];
  /**
   * Whose billboard a contribution is made of: the one that its user was `served`, or the *reference* of the round that
   * counts it, `open` when it is submitted. Either is public, and the bounds hold under each.
   */
  readonly formedUnder: "served" | "open";
  /** Whether a contribution may be about several visits of one user. */
  readonly stays?: boolean;
  /** Whether users act on what has happened to themselves so far (`Belief`), which only their own devices may know. */
  readonly remembers?: boolean;
  /** What a user's device acts on at the beginning of an episode, with what it remembers of earlier visits. */
  belief?(model: Model, billboard: Billboard, likelihoods: ArrayLike<number> | null): Belief;
  /** Refuse what could not be acted on, before an episode begins. */
  requireBelief?(model: Model, billboard: Billboard): void;

  /** Names and shapes of the arrays it clips to, which the rules carry. */
  boundShapes(sizes: Dimensions): Readonly<Record<string, Shape>>;

  /** Of a contribution: rows, one per step in most forms, and numbers per row. No size is left to the service. */
  shape(sizes: Dimensions, bounds: Bounds): Shape;

  /** Names and shapes of the arrays that a billboard carries for it: what contributions under it are made of. */
  versionShapes(sizes: Dimensions, bounds: Bounds): Readonly<Record<string, Shape>>;

  /** Refuse a billboard whose arrays that {@link act} reads are not what they must be. No model is needed. */
  requirePlan(billboard: Billboard): void;

  /** The action at 0-based `step` of the user at `place` of their round; `uniform` in [0, 1) decides where it is random. */
  act(billboard: Billboard, step: number, state: number, place: number | null, uniform: number): number;

  /** With what probability {@link act} takes `action`, over `uniform`. */
  probability(billboard: Billboard, step: number, state: number, place: number | null, action: number): number;

  /**
   * The clipped contribution, before any rounding. Raw data: in the local model it stays on the device.
   *
   * Formal guarantee. Whatever model, billboard and trajectory are, it lies within the bounds of the rules.
   */
  contribution(model: Model, billboard: Billboard, seen: Trajectory): Floats;

  /** The most that a clipped contribution is away from 0 in each coordinate, of {@link shape}. */
  largest(sizes: Dimensions, bounds: Bounds): Floats;

  /** μ of one noised contribution between any two users; infinite if a number that can differ has no noise. */
  strength(sizes: Dimensions, rules: Rules): number;
}

/** A form's bounds in an answer of the service. */
export function readBounds(form: Form, content: Content, sizes: Dimensions): Bounds {
  const shapes = Object.entries(form.boundShapes(sizes));
  return {
    arrays: Object.fromEntries(
      shapes.map(([name, shape]) => [name, readFloats(`report.${name}`, content[name], shape)]),
    ),
    flags: Object.fromEntries(form.flags.map((name) => [name, readFlag(content, name)])),
  };
}

/** Refuse a billboard that does not carry what contributions under this model's rules are made of. */
export function requireVersion(model: Model, billboard: Billboard): void {
  const { form, bounds } = model.rules;
  for (const [name, shape] of Object.entries(form.versionShapes(model.sizes, bounds))) {
    requireShape(`billboard.report.${name}`, billboard.report[name], shape);
  }
}

/** The least of some numbers; NaN if one is. */
export function least(numbers: Float64Array): number {
  return numbers.reduce((smallest, number) => Math.min(smallest, number), Infinity);
}

/** ⟨a, b⟩ of two vectors of the same length. */
export function inner(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

/** `factor` · Bᵀx. */
export function inBasis(x: Float64Array, basis: Floats, factor: number): Float64Array {
  const width = basis.shape[1]!;
  return Float64Array.from({ length: width }, (_, column) => {
    let sum = 0;
    for (let i = 0; i < x.length; i++) sum += x[i]! * basis.data[i * width + column]!;
    return sum * factor;
  });
}
