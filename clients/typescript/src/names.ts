// SPDX-License-Identifier: Apache-2.0
/** What the model's states and actions are called, so that an app's code says `nudge` and not 2. */

import type { Content } from "./wire/content.js";
import { InvalidInput } from "./wire/errors.js";
import { History } from "./wire/history.js";

/** Labels in the order of indices; null where they have no names. Public, and the same for the whole deployment. */
export class Names {
  /** `history`: how states are made of what is observed, where they are more than one observation; else null. */
  constructor(
    readonly states: readonly string[] | null,
    readonly actions: readonly string[] | null,
    readonly history: History | null = null,
  ) {}

  /** What a service published. */
  static read(content: Content): Names {
    const history = content["history"] ?? null;
    return new Names(
      readLabels(content, "states"), readLabels(content, "actions"), history === null ? null : History.read(history as Content),
    );
  }

  /** What a state is called; its number where it has no name. */
  state(index: number): string {
    return labelOf("state", this.states, index);
  }

  /** What an action is called; its number where it has no name. */
  action(index: number): string {
    return labelOf("action", this.actions, index);
  }

  /** The state that is called so. A label that there is not is refused and not repeated: where a user is, is theirs. */
  stateOf(label: string): number {
    const index = this.states?.indexOf(label) ?? -1;
    if (index < 0) {
      const known = this.states === null ? "none, since the model has no names" : `one of ${this.states.join(", ")}`;
      throw new InvalidInput("state", "a label that no state has", known, "see (await client.names()).states");
    }
    return index;
  }
}

function readLabels(content: Content, field: string): readonly string[] | null {
  const labels = content[field] ?? null;
  if (labels === null) return null;
  if (!Array.isArray(labels) || !labels.every((label) => typeof label === "string")) {
    throw new InvalidInput(`names.${field}`, "something else", "a list of strings, or null", "ask the operator");
  }
  return labels;
}

function labelOf(what: string, labels: readonly string[] | null, index: number): string {
  if (labels === null) return `${what} ${index}`;
  const label = labels[index];
  if (label === undefined) {
    throw new InvalidInput(what, "a number that there is not", `from 0 to ${labels.length - 1}`, "ask the policy for one");
  }
  return label;
}
