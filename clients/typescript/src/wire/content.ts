// SPDX-License-Identifier: Apache-2.0
/** Reading what a service published: JSON of any kind comes in, and a field that is not what it must be is named. */

import { InvalidInput } from "./errors.js";

export type Content = Readonly<Record<string, unknown>>;

const REMEDY = "ask the service's operator";

/** `value` as a JSON object. */
export function readObject(field: string, value: unknown): Content {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new InvalidInput(field, kindOf(value), "a JSON object", REMEDY);
  }
  return value as Content;
}

/** A whole number of at least `least` that a JSON object holds. */
export function readInteger(content: Content, name: string, least = 0): number {
  const value = content[name];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least) {
    throw new InvalidInput(name, typeof value === "number" ? value : kindOf(value), `an integer ≥ ${least}`, REMEDY);
  }
  return value;
}

/** A number that a JSON object holds. */
export function readNumber(content: Content, name: string): number {
  const value = content[name];
  if (typeof value !== "number") throw new InvalidInput(name, kindOf(value), "a number", REMEDY);
  return value;
}

/** A string that a JSON object holds. */
export function readText(content: Content, name: string): string {
  const value = content[name];
  if (typeof value !== "string") throw new InvalidInput(name, kindOf(value), "a string", REMEDY);
  return value;
}

/** True or false, which a JSON object holds. */
export function readFlag(content: Content, name: string): boolean {
  const value = content[name];
  if (typeof value !== "boolean") throw new InvalidInput(name, kindOf(value), "true or false", REMEDY);
  return value;
}

function kindOf(value: unknown): string {
  return value === undefined ? "missing" : value === null ? "null" : Array.isArray(value) ? "an array" : typeof value;
}
