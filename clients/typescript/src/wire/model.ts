// SPDX-License-Identifier: Apache-2.0
/** The public model of a deployment and the rules that contributions follow: what server and device agree on. */

import { ANY, type Floats, type Indices, type Integers, readFloats, readIndices } from "./arrays.js";
import type { Billboard } from "./billboard.js";
import { readInteger, readNumber, readObject, readText } from "./content.js";
import { InvalidInput } from "./errors.js";
import { type Bounds, type Form, readBounds } from "./forms/form.js";
import { formNamed } from "./forms/index.js";
import { quantize, requireGrid } from "./grid.js";
import { ShuffleRules } from "./shuffle_rules.js";
import type { Trajectory } from "./trajectory.js";

/** How large a model is: H steps, S states, A actions, d1 transition and d2 reward features. */
export interface Dimensions {
  readonly horizon: number;
  readonly states: number;
  readonly actions: number;
  readonly d1: number;
  readonly d2: number;
}

/** Visits of one stay at the most. */
const MOST_VISITS = 10_000;

/** How contributions are formed and noised. */
export interface Rules {
  /** What they consist of. */
  readonly form: Form;
  /** The unit of their integers, a power of two. */
  readonly grid: number;
  /** Standard deviation of each coordinate's noise: on each report in the local model, on a round's sum elsewhere. */
  readonly noiseScale: Floats;
  readonly bounds: Bounds;
  /** How the messages of the shuffle model are formed; null in the others. */
  readonly shuffle: ShuffleRules | null;
  /** V, of one stay, which is one contribution. */
  readonly visits: number;
  /** What a service calls them, by which a device knows them again; empty where it has no name for them. */
  readonly digest: string;
}

export class Model {
  private constructor(
    readonly digest: string,
    readonly sizes: Dimensions,
    /** ψ, `(d1, S, A, n)`. */
    readonly transitionFeatures: Floats,
    /** φ, `(d2, S, A)`. */
    readonly rewardFeatures: Floats,
    /** Which state each entry of the last axis of ψ is; null: entry j is state j. */
    readonly successors: Indices | null,
    readonly rules: Rules,
  ) {}

  /** The model in an answer of the service. */
  static read(answer: unknown): Model {
    const content = readObject("model", answer);
    const size = (name: keyof Dimensions) => readInteger(content, name, 1);
    const sizes: Dimensions = {
      horizon: size("horizon"), states: size("states"), actions: size("actions"), d1: size("d1"), d2: size("d2"),
    };
    const { states, actions, d1, d2 } = sizes;
    const listed = content["successors"] ?? null;
    const successors =
      listed === null ? null : readIndices("successors", listed, [states, actions, ANY], states);
    const entries = successors === null ? states : successors.shape[2]!;
    return new Model(
      readText(content, "digest"), sizes,
      readFloats("transition_features", content["transition_features"], [d1, states, actions, entries]),
      readFloats("reward_features", content["reward_features"], [d2, states, actions]),
      successors, readRules(content["report"], sizes),
    );
  }

  /** What the user of `seen` adds under `billboard`: clipped, before any rounding. Raw data. */
  contribution(billboard: Billboard, seen: Trajectory): Floats {
    return this.rules.form.contribution(this, billboard, seen);
  }

  /** The contribution in whole steps of the grid, the nearest ones, without noise. Raw data. */
  steps(billboard: Billboard, seen: Trajectory): Integers {
    return quantize(this.contribution(billboard, seen), this.rules.grid);
  }
}

/** The number of visits in an answer of the service. */
function readVisits(form: Form, given: unknown): number {
  const most = form.stays ? MOST_VISITS : 1;
  if (typeof given !== "number" || !Number.isInteger(given) || given < 1 || given > most) {
    throw new InvalidInput("report.visits", given, `an integer from 1 to ${most}`, "ask the service's operator");
  }
  return given;
}

function readRules(answer: unknown, sizes: Dimensions): Rules {
  const content = readObject("report", answer);
  const form = formNamed(content["form"]);
  const bounds = readBounds(form, content, sizes);
  // The whole shape is the form's: noise of fewer numbers than a contribution has would be shared between coordinates.
  const shape = form.shape(sizes, bounds);
  return {
    form,
    grid: requireGrid(readNumber(content, "grid")),
    noiseScale: readFloats("report.noise_scale", content["noise_scale"], shape),
    bounds,
    shuffle: content["shuffle"] ? ShuffleRules.read(content["shuffle"], shape) : null,
    visits: readVisits(form, content["visits"] ?? 1),
    digest: content["digest"] === undefined ? "" : readText(content, "digest"),
  };
}
