// SPDX-License-Identifier: Apache-2.0
/** A user's value has a type of which nothing can be decided or shown: by the compiler, and when run. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { inspect } from "node:util";

import { Clipped, DataEscapes, Raw, Released } from "../src/boundary.js";
import { refusedLines } from "./user_values.js";

test("every planted leak is refused, and nothing else", () => {
  const lines = readFileSync("leaks/planted.ts", "utf8").split("\n");
  const planted = lines.flatMap((line, index) => (line.endsWith("// refused") ? [`planted.ts:${index + 1}`] : []));
  assert.ok(planted.length >= 25);
  assert.deepEqual([...refusedLines("tsconfig.leaks.json", "/leaks/")].sort(), planted.sort());
});

test("the client itself has none", () => {
  assert.deepEqual([...refusedLines("tsconfig.json", "/src/")], []);
});

test("at run time no text and no number is made of a value, and an error does not say it", () => {
  const uses: ((value: Raw<number> | Clipped<number>) => unknown)[] = [
    (value) => `${value}`, (value) => String(value), (value) => "" + (value as unknown as string), (value) => JSON.stringify({ value }),
    (value) => Number(value), (value) => (value as unknown as number) > 1, (value) => (value as unknown as number) * 2,
    (value) => new Date(value as unknown as number), (value) => [value].join(),
  ];
  for (const held of [Raw, Clipped]) {
    for (const use of uses) {
      const said = new Set<string>();
      for (const value of [0, 0.5, 7125]) {
        assert.throws(() => use(new held(value)), (error: Error) => {
          said.add(error.message);
          return error instanceof DataEscapes;
        });
      }
      assert.equal(said.size, 1);
      assert.doesNotMatch([...said][0]!, /7125/);
    }
    assert.doesNotMatch(inspect(new held(7125), { depth: null, showHidden: true }), /7125/);
    assert.equal(Object.keys(new held(7125)).length, 0);
  }
});

test("there is one way on from each", () => {
  const clipped = new Raw(7.5).clip((value) => Math.min(Math.max(value, 0), 1));
  const both = Clipped.allOf([clipped, clipped]);
  assert.deepEqual(both.onDevice((values) => values.length), 2);
  const released = both.release((values) => values[0]! + values[1]! + 0.25);
  assert.ok(released instanceof Released);
  assert.equal(released.value, 2.25);
});
