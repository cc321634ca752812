// SPDX-License-Identifier: Apache-2.0
/** Arrays, row by row, and their JSON: type, shape, and little-endian bytes in base64; no number is lost on the way. */

import { readObject } from "./content.js";
import { InvalidInput } from "./errors.js";

export type Shape = readonly number[];

/** In a shape that is asked for: any size. */
export const ANY = -1;

export interface Floats {
  readonly shape: Shape;
  readonly data: Float64Array;
}

/** 32-bit integers: states and actions. */
export interface Indices {
  readonly shape: Shape;
  readonly data: Int32Array;
}

/** 64-bit integers: steps of a grid, messages. */
export interface Integers {
  readonly shape: Shape;
  readonly data: BigInt64Array;
}

export interface ArrayJson {
  readonly dtype: "<f8" | "<i4" | "<i8";
  readonly shape: number[];
  readonly data: string;
}

/** How many numbers an array of this shape has. */
export function sizeOf(shape: Shape): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Whether a shape is what was asked for, {@link ANY} standing for any size. */
export function fits(stated: Shape, shape: Shape): boolean {
  return stated.length === shape.length && stated.every((size, axis) => shape[axis] === ANY || shape[axis] === size);
}

/** The floating-point numbers in `content`, which must have this shape. */
export function readFloats(field: string, content: unknown, shape: Shape): Floats {
  const { stated, view } = bytesOf(field, content, "<f8", 8, shape);
  const data = new Float64Array(view.byteLength / 8);
  for (let i = 0; i < data.length; i++) data[i] = view.getFloat64(8 * i, true);
  return { shape: stated, data };
}

/** The 32-bit integers in `content`, which must have this shape and lie within 0 … `below` − 1. */
export function readIndices(field: string, content: unknown, shape: Shape, below: number): Indices {
  const { stated, view } = bytesOf(field, content, "<i4", 4, shape);
  const data = new Int32Array(view.byteLength / 4);
  for (let i = 0; i < data.length; i++) {
    const index = view.getInt32(4 * i, true);
    // Here, where it is public: found out in the middle of an episode, it would say where a user was.
    if (index < 0 || index >= below) {
      throw new InvalidInput(field, index, `from 0 to ${below - 1}`, "ask the service's operator");
    }
    data[i] = index;
  }
  return { shape: stated, data };
}

/** The 64-bit integers in `content`, which must have this shape. */
export function readIntegers(field: string, content: unknown, shape: Shape): Integers {
  const { stated, view } = bytesOf(field, content, "<i8", 8, shape);
  const data = new BigInt64Array(view.byteLength / 8);
  for (let i = 0; i < data.length; i++) data[i] = view.getBigInt64(8 * i, true);
  return { shape: stated, data };
}

/** What the three readers read. */
export function toJson(array: Floats | Indices | Integers): ArrayJson {
  const { data } = array;
  const width = data.BYTES_PER_ELEMENT;
  const view = new DataView(new ArrayBuffer(data.length * width));
  for (let i = 0; i < data.length; i++) {
    if (data instanceof Float64Array) view.setFloat64(8 * i, data[i]!, true);
    else if (data instanceof Int32Array) view.setInt32(4 * i, data[i]!, true);
    else view.setBigInt64(8 * i, data[i]!, true);
  }
  const dtype = data instanceof Float64Array ? "<f8" : data instanceof Int32Array ? "<i4" : "<i8";
  return { dtype, shape: [...array.shape], data: toBase64(new Uint8Array(view.buffer)) };
}

function bytesOf(field: string, content: unknown, dtype: string, width: number, shape: Shape) {
  const { dtype: type, shape: sizes, data: text } = readObject(field, content);
  const stated = Array.isArray(sizes) && sizes.every((size) => Number.isSafeInteger(size) && size >= 0) ? sizes : null;
  if (type !== dtype || stated === null || !fits(stated, shape)) {
    const kind = `${String(type)} ${JSON.stringify(sizes)}`;
    throw new InvalidInput(field, kind, `${dtype} ${JSON.stringify(shape)}`, "see the service's model for the shape");
  }
  const bytes = fromBase64(field, text);
  if (bytes.length !== sizeOf(stated) * width) {
    throw new InvalidInput(`${field}.data`, `${bytes.length} bytes`, "as many as the shape says", "send the whole array");
  }
  return { stated: stated as Shape, view: new DataView(bytes.buffer) };
}

function fromBase64(field: string, text: unknown): Uint8Array<ArrayBuffer> {
  // `atob` alone would let white space and missing padding pass.
  if (typeof text !== "string" || text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
    throw new InvalidInput(`${field}.data`, "not base64", "standard base64", "encode the array's bytes");
  }
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
}
