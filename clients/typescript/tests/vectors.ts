// SPDX-License-Identifier: Apache-2.0
/** The test vectors that all clients share, and small deployments made of them. */

import { readFileSync } from "node:fs";

export type Json = any;

const PLACE = new URL("../../../python/src/reticent_wire/vectors/", import.meta.url);

export const FILES = [
  "arrays", "clipping", "grid", "trajectory", "regressions", "counts", "score", "score_start",
  "score_residual", "kinds", "kinds_planned", "beliefs", "factors", "tastes", "shuffling", "promise", "budget", "discrete_gaussian", "acting", "history",
] as const;

/** The cases of one file. */
export function casesOf(name: (typeof FILES)[number]): Json[] {
  return JSON.parse(readFileSync(new URL(`${name}.json`, PLACE), "utf8")).cases;
}

export function folder(): URL {
  return PLACE;
}

/** Numbers of which some are the words for those that JSON has none for. */
export function numbers(values: Json[]): Float64Array {
  return Float64Array.from(values, Number);
}

/** Whole numbers `(rows, D)` of JSON. */
export function integers(rows: number[][]) {
  return { shape: [rows.length, rows[0]!.length], data: BigInt64Array.from(rows.flat(), BigInt) };
}

/** A deployment of a form, with a noise scale of your own in every coordinate if given. */
export function deploymentOf(form: "regressions" | "counts" | "score" | "kinds" | "kinds_planned" | "factors") {
  const { model, billboard, episode } = casesOf(form)[0];
  return { model, billboard, episode };
}
