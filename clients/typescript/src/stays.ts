// SPDX-License-Identifier: Apache-2.0
/**
 * Stays that last longer than a page: what a device keeps of a user's visits until the one report of all of them.
 *
 * A stay is one episode of several visits (`episode.visits`). An app that is closed between visits gives its client a
 * {@link StayMemory} and goes on with `client.resumeStay`. It is kept in a {@link Store}, such as the browser's database, where
 * the user can see it ({@link StayMemory.show}) and erase it. It is data at rest about the user.
 *
 * Formal guarantee. A stay is reported at most once, whatever happens to the app: where reports are noised on the device,
 * the visits are erased before the report is formed, so that no second report with other noise can be formed from them. In
 * the joint model the same trajectory may be sent again, and the service counts it once. Between visits nothing is sent.
 */

import type { Store } from "./budget.js";
import { DefaultStore } from "./default_store.js";

/** One stay: how it was admitted, and what was seen in its finished visits. */
export interface KeptStay {
  readonly opened: Readonly<Record<string, unknown>>;
  readonly states: readonly number[];
  readonly actions: readonly number[];
  readonly rewards: readonly number[];
}

export class StayMemory {
  /** `scope` keeps apps on one device apart; the app chooses it. */
  constructor(private readonly store: Store = new DefaultStore(), private readonly scope: string = "stay") {}

  /** Remember the finished visits of a stay, in the place of what was kept before. */
  async keep(user: string, stay: KeptStay): Promise<void> {
    await this.store.put(this.key(user), JSON.stringify(stay));
  }

  /** What is kept of a user's open stay; null if nothing is. */
  async show(user: string): Promise<KeptStay | null> {
    const kept = await this.store.get(this.key(user));
    return kept ? JSON.parse(kept) : null;
  }

  /** Forget a user's stay; it is not reported then. */
  async erase(user: string): Promise<void> {
    await this.store.put(this.key(user), "");
  }

  private key(user: string): string {
    return JSON.stringify(["stay", this.scope, user]);
  }
}
