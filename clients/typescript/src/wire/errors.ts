// SPDX-License-Identifier: Apache-2.0
/**
 * The errors a caller can cause, each naming the field, the value, the bound and the remedy.
 *
 * No error of this package quotes what a user did: states, actions, rewards and statistics never get into a message,
 * since messages end up in logs.
 */

/** Base of every error of this package. */
export class ReticentError extends Error {
  override name = "ReticentError";
}

/** A value outside its declared domain; raised before anything is sent, spent or changed. */
export class InvalidInput extends ReticentError {
  override name = "InvalidInput";

  constructor(
    readonly field: string,
    readonly value: unknown,
    readonly bound: string,
    readonly remedy: string,
  ) {
    super(`${field} is ${String(value)}, but must be ${bound}; ${remedy}`);
  }
}
