// SPDX-License-Identifier: Apache-2.0
/**
 * History in the state: the last few observations of an episode, as one state number.
 *
 * The state is the longest listed context with which the user's observations end. It is a function of a public list and of
 * the user's own observations, so a device computes it by itself. An observation is the number of what is seen now,
 * `plain · remembered + code`: codes are remembered, the plain part is not. With n contexts the state is `plain · n + context`.
 */

import type { Content } from "./content.js";
import { InvalidInput } from "./errors.js";
import { clipIndex } from "./trajectory.js";

/** What stands before the first observation of an episode. */
export const START = -1;

export const MOST_DEPTH = 8;

export class History {
  readonly #index: ReadonlyMap<string, number>;

  constructor(
    readonly depth: number,
    readonly remembered: number,
    readonly observations: readonly string[],
    readonly contexts: readonly (readonly number[])[],
  ) {
    this.#index = new Map(contexts.map((context, number) => [context.join(), number]));
    const single = Array.from({ length: Math.max(remembered, 0) }, (_, code) => `${code}`);
    const checks: [string, boolean, string][] = [
      ["depth", depth >= 1 && depth <= MOST_DEPTH, `from 1 to ${MOST_DEPTH}`],
      [
        "remembered", remembered >= 1 && observations.length > 0 && observations.length % remembered === 0,
        `a divisor of ${observations.length}, the number of observations`,
      ],
      ["contexts", this.#index.size === contexts.length, "all different"],
      ["contexts", single.every((code) => this.#index.has(code)), "with every single code"],
      [
        "contexts", contexts.every((context) => valid(context, depth, remembered)),
        `of 1 to ${depth} codes from 0 to ${remembered - 1}, ${START} only first`,
      ],
    ];
    for (const [field, holds, bound] of checks) {
      if (!holds) throw new InvalidInput(`history.${field}`, "something else", bound, "ask the operator");
    }
  }

  /** What a service published. */
  static read(content: Content): History {
    const { depth, remembered, observations, contexts } = content;
    const wrong = () =>
      new InvalidInput("names.history", "something else", "depth, remembered, observations and contexts", "ask the operator");
    if (!Number.isInteger(depth) || !Number.isInteger(remembered)) throw wrong();
    if (!Array.isArray(observations) || !observations.every((label) => typeof label === "string")) throw wrong();
    if (!Array.isArray(contexts)) throw wrong();
    if (!contexts.every((context) => Array.isArray(context) && context.every((code) => Number.isInteger(code)))) throw wrong();
    return new History(depth as number, remembered as number, observations, contexts);
  }

  /** How many states the contexts make, without one for users who have left. */
  get states(): number {
    return (this.observations.length / this.remembered) * this.contexts.length;
  }

  /**
   * The state after the observations of one episode, the first one first, the present one last.
   *
   * One that there is not is taken for the nearest, and what is missing for the first: a refusal would stop the episode, which
   * the service sees.
   */
  state(seen: readonly (number | null | undefined)[]): number {
    if (seen.length === 0) {
      throw new InvalidInput("observations", "none", "at least one", "begin with what the user sees first");
    }
    const recent = seen.slice(-this.depth).map((number) => clipIndex(number, this.observations.length));
    let codes = recent.map((number) => number % this.remembered);
    if (codes.length < this.depth) codes = [START, ...codes];
    let context = this.#index.get(codes.join());
    while (context === undefined) {
      codes = codes.slice(1);
      context = this.#index.get(codes.join());
    }
    return Math.floor(recent[recent.length - 1]! / this.remembered) * this.contexts.length + context;
  }
}

function valid(context: readonly number[], depth: number, remembered: number): boolean {
  const codes = context[0] === START ? context.slice(1) : context;
  return context.length <= depth && codes.length > 0 && codes.every((code) => code >= 0 && code < remembered);
}
