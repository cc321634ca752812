// SPDX-License-Identifier: Apache-2.0
/** What service and device share. `clients/python/src/reticent_wire/vectors/*.json` are inputs and outputs of it. */

export * from "./arrays.js";
export { Billboard } from "./billboard.js";
export { clipInterval, clipNorm, numberOf } from "./clipping.js";
export { InvalidInput, ReticentError } from "./errors.js";
export { FORMS, formNamed } from "./forms/index.js";
export type { Bounds, Form } from "./forms/form.js";
export { TasteBelief } from "./forms/factors.js";
export { Belief, requireBelief } from "./forms/kinds.js";
export { quantize, requireExact, requireFine, requireGrid, roundAt } from "./grid.js";
export { History } from "./history.js";
export { type Dimensions, Model, type Rules } from "./model.js";
export { discreteDistance, epsilonOf, reportEpsilon, requirePromise } from "./promise.js";
export { ShuffleRules, type Tally, tallyOf } from "./shuffle_rules.js";
export { type Sizes, type Trajectory, clipIndex, clipReward, wellFormed } from "./trajectory.js";
