// SPDX-License-Identifier: Apache-2.0
/**
 * What a device remembers of its own user between visits: the log-likelihoods behind the belief, and only if asked.
 *
 * It is kept in a {@link Store}, such as the browser's database, where the user can see it ({@link BeliefMemory.show}) and
 * erase it. It is data at rest about the user. Nothing of it is ever sent: what is reported at a visit is formed from that
 * visit's own episode.
 */

import type { Store } from "./budget.js";
import { DefaultStore } from "./default_store.js";

/** ℓ by the digest of its model; none yet of a user who is in their first visit. */
interface Entry {
  readonly model: string;
  readonly likelihoods: number[];
}

export class BeliefMemory {
  /** `scope` keeps apps on one device apart; the app chooses it. */
  constructor(private readonly store: Store = new DefaultStore(), private readonly scope: string = "belief") {}

  /** ℓ after the user's last visit; null at the first, or under another model. The visit that begins may be kept from now on. */
  async recall(user: string, model: string): Promise<Float64Array | null> {
    const kept = await this.entry(user);
    if (kept === null) await this.write(user, model, []);
    return kept === null || kept.model !== model || kept.likelihoods.length === 0 ? null : Float64Array.from(kept.likelihoods);
  }

  /** Remember ℓ after a visit; nothing if the user was erased since it began: what was erased stays so. */
  async keep(user: string, model: string, likelihoods: Float64Array): Promise<void> {
    if ((await this.entry(user)) !== null) await this.write(user, model, [...likelihoods]);
  }

  /** What is kept of a user: the log-likelihood of each kind, the blend last; null if nothing is. */
  async show(user: string): Promise<Entry | null> {
    const kept = await this.entry(user);
    return kept === null || kept.likelihoods.length === 0 ? null : kept;
  }

  /** Forget a user, and the visit that they are in: the next one begins as the first did. */
  async erase(user: string): Promise<void> {
    await this.store.put(this.key(user), "");
  }

  private async entry(user: string): Promise<Entry | null> {
    const kept = await this.store.get(this.key(user));
    return kept ? JSON.parse(kept) : null;
  }

  private async write(user: string, model: string, likelihoods: number[]): Promise<void> {
    await this.store.put(this.key(user), JSON.stringify({ model, likelihoods }));
  }

  private key(user: string): string {
    return JSON.stringify(["belief", this.scope, user]);
  }
}
