// SPDX-License-Identifier: Apache-2.0
/** One version of the public policy: what users act by, and what their contributions are made of. */

import { type Floats, type Indices, readFloats, readIndices } from "./arrays.js";
import { readInteger, readNumber, readObject, readText } from "./content.js";
import { InvalidInput } from "./errors.js";
import type { Form } from "./forms/form.js";
import { formNamed } from "./forms/index.js";
import { requireProbabilities } from "./plans.js";
import { uniform53 } from "./randomness.js";
import type { Sizes } from "./trajectory.js";

export class Billboard {
  private constructor(
    readonly version: number,
    readonly horizon: number,
    readonly states: number,
    readonly actions: number,
    /** Chosen actions `(H, S)`, or probabilities `(H, S, A)`. */
    private readonly policy: { greedy: true; table: Indices } | { greedy: false; table: Floats },
    /** What contributions under this version are made of, by name; which arrays, the rules' form says. */
    readonly report: Readonly<Record<string, Floats>>,
    /** Digest of the model it belongs to. */
    readonly model: string,
    /** Of contributions; it says whether what a user is served depends on their place. Null: it does not. */
    private readonly form: Form | null,
    /** The least probability of every action, which chosen actions are mixed with; 0 is none. */
    readonly floor: number,
  ) {}

  /**
   * The billboard in an answer of the service.
   *
   * Every array that a user may be served by is checked here, where it is public: an action that there is not, found out
   * in the middle of an episode, would say in which state a user was.
   */
  static read(answer: unknown): Billboard {
    const content = readObject("billboard", answer);
    const [horizon, states] = [readInteger(content, "horizon", 1), readInteger(content, "states", 1)];
    const actions = readInteger(content, "actions", 1);
    const policy =
      content["method"] === "value-iteration"
        ? { greedy: true as const, table: readIndices("policy", content["policy"], [horizon, states], actions) }
        : { greedy: false as const, table: readFloats("policy", content["policy"], [horizon, states, actions]) };
    if (!policy.greedy) requireProbabilities("policy", policy.table, actions);
    const report = Object.entries(readObject("report", content["report"])).map(([name, given]) => {
      const { shape } = readObject(`report.${name}`, given);
      return [name, readFloats(`report.${name}`, given, Array.isArray(shape) ? shape : [])] as const;
    });
    const named = content["form"] ?? null;
    const floor = "floor" in content ? readNumber(content, "floor") : 0;
    if (!(floor >= 0 && floor * actions <= 1 + 1e-9) || (floor !== 0 && !policy.greedy)) {
      throw new InvalidInput("floor", floor, `from 0 to 1/${actions}, of chosen actions`, "ask the service's operator");
    }
    const board = new Billboard(
      readInteger(content, "version"), horizon, states, actions, policy, Object.fromEntries(report),
      readText(content, "model"), named === null ? null : formNamed(named), floor,
    );
    board.form?.requirePlan(board);
    return board;
  }

  /** Whether users act on a belief about themselves, which takes the model too, and never by the policy alone. */
  get remembers(): boolean {
    return this.form?.remembers ?? false;
  }

  /** Refuse it for a model of other sizes: an index out of range would say where a user was. */
  requireSizes(sizes: Sizes): void {
    for (const name of ["horizon", "states", "actions"] as const) {
      if (this[name] !== sizes[name]) {
        throw new InvalidInput(`billboard.${name}`, this[name], `${sizes[name]}, the model's`, "ask its operator");
      }
    }
  }

  /** The action at 0-based `step`, for a user whose place does not matter; {@link choose} is for everyone. */
  act(step: number, state: number, uniform: number): number {
    const { greedy, table } = this.policy;
    if (greedy) return this.floored(table.data[step * this.states + state]!, uniform);
    const start = (step * this.states + state) * this.actions;
    let [cumulative, action] = [0, 0];
    // The last sum may round to below 1; an action past the end must never come out.
    for (; action < this.actions - 1; action++) {
      cumulative += table.data[start + action]!;
      if (uniform < cumulative) break;
    }
    return action;
  }

  /** The action of the user at `place` of their round, 0-based; null for one who is not learned from. */
  choose(step: number, state: number, place: number | null, uniform: number = uniform53()): number {
    return this.form === null
      ? this.act(step, state, uniform)
      : this.form.act(this, step, state, place, uniform);
  }

  /** A chosen action or, with probability A·floor, one at random. */
  floored(chosen: number, uniform: number): number {
    if (this.floor === 0 || uniform >= this.actions * this.floor) return chosen;
    return Math.min(Math.floor(uniform / this.floor), this.actions - 1);
  }

  /** With what probability {@link choose} takes `action` there: what is logged with every decision. */
  probability(step: number, state: number, place: number | null, action: number): number {
    return this.form === null
      ? this.probabilityByPolicy(step, state, action)
      : this.form.probability(this, step, state, place, action);
  }

  /** The same for a user whose place does not matter. */
  probabilityByPolicy(step: number, state: number, action: number): number {
    const { greedy, table } = this.policy;
    const at = step * this.states + state;
    return greedy ? this.probabilityOf(table.data[at]!, action) : table.data[at * this.actions + action]!;
  }

  /** With what probability {@link floored} takes `action`. */
  probabilityOf(chosen: number, action: number): number {
    const taken = action === chosen ? 1 : 0;
    return this.floor === 0 ? taken : this.floor + (1 - this.actions * this.floor) * taken;
  }

  /** One of the arrays that it carries for contributions. */
  part(name: string): Floats {
    const array = this.report[name];
    if (array === undefined) {
      throw new InvalidInput(`billboard.report.${name}`, "missing", "given", "ask the service's operator");
    }
    return array;
  }
}
