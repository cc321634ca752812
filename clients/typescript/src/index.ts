// SPDX-License-Identifier: Apache-2.0
/** The device's side of the service: act by the published policy, send what the trust model allows. No dependencies. */

export { BeliefMemory } from "./belief_memory.js";
export { EXPIRED, type KeptStay, NOT_KEPT, StayMemory } from "./stays.js";
export { BrowserStore } from "./browser_store.js";
export { DataEscapes } from "./boundary.js";
export { Budget, BudgetSpent, MemoryStore, type Store } from "./budget.js";
export { DefaultStore } from "./default_store.js";
export { Client, type ClientOptions } from "./client.js";
export { Connection, type ConnectionOptions, type Observer } from "./connection.js";
export { BUDGET_SPENT, Episode, type Status, StayNotKept } from "./episode.js";
export type { MicroBatching } from "./micro_batching.js";
export type { MessageReceiver } from "./messages.js";
export { Names } from "./names.js";
export { ServiceError, Unreachable } from "./problems.js";
export { Shuffler } from "./shuffler.js";
export type { Receipt, Submission, Trust } from "./submission.js";
export type { Ticket } from "./tickets.js";
export { InvalidInput, ReticentError } from "./wire/errors.js";
export { History } from "./wire/history.js";
