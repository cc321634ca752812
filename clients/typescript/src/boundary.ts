// SPDX-License-Identifier: Apache-2.0
/**
 * Types for what comes from a user, as in Python's `reticent_wire/boundary.py`: there is one way on from each.
 *
 * - `Raw`: as the app gave it, whatever it is; `clip` takes it into public bounds.
 * - `Clipped`: within them and still the user's; the device may use it (`onDevice`), and a mechanism may release something of
 *   it (`release`).
 * - `Released`: noised, or meant for a server that is trusted with it; it may be sent, shown and branched on.
 *
 * Formal guarantee. A function that `tsc` accepts under this package's configuration, that has no `any` and no type
 * assertion, and that calls none of these methods, has the same control flow for any two values: the value is in a private
 * field, and an object is always true and equal to itself alone. What `tsc` would let pass without showing the value (a
 * condition on the object, a text of it, a function that takes anything) is refused by `tests/user_values.ts` and, where a
 * text or a number would be made of it, at run time by {@link DataEscapes}.
 */

import { ReticentError } from "./wire/errors.js";

/** Something would have depended on a user's value outside a clip. */
export class DataEscapes extends ReticentError {
  constructor(kind: string) {
    super(`a ${kind} value of a user has no text and no number; clip it, and release it by a mechanism`);
  }
}

/** A value that is used by name only. */
abstract class Held {
  toString(): never {
    throw new DataEscapes(this.constructor.name);
  }

  valueOf(): never {
    throw new DataEscapes(this.constructor.name);
  }

  toJSON(): never {
    throw new DataEscapes(this.constructor.name);
  }
}

/** A value of one user as it came: it may be of any size, no number, or missing. */
export class Raw<T> extends Held {
  readonly #value: T;

  constructor(value: T) {
    super();
    this.#value = value;
  }

  /** The value within public bounds. `into` must give a value within them for *every* value, and throw for none. */
  clip<R>(into: (value: T) => R): Clipped<R> {
    return new Clipped(into(this.#value));
  }
}

/** A value of one user within public bounds: its sensitivity is bounded, and it is still theirs. */
export class Clipped<T> extends Held {
  readonly #value: T;

  constructor(value: T) {
    super();
    this.#value = value;
  }

  /** What the user's own device makes of it: an action, or a step towards a contribution. It must not be sent. */
  onDevice<R>(use: (value: T) => R): R {
    return use(this.#value);
  }

  /** Several values as one. */
  static allOf<T>(parts: readonly Clipped<T>[]): Clipped<T[]> {
    return new Clipped(parts.map((part) => part.#value));
  }

  /** What a mechanism makes of it: it adds the noise, or the trust model names a server that may see the value. */
  release<R>(mechanism: (value: T) => R): Released<R> {
    return new Released(mechanism(this.#value));
  }
}

/** What may leave: as private as the mechanism that made it. */
export class Released<T> {
  constructor(readonly value: T) {}
}
