// SPDX-License-Identifier: Apache-2.0
/** Imported by every test: whatever draws from `Math.random`, whose numbers can be predicted, fails there. */

Math.random = () => {
  throw new Error("Math.random was asked: noise, coins, names and pauses come from crypto.getRandomValues alone");
};

export {};
