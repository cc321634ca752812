// SPDX-License-Identifier: Apache-2.0
/** Where a device keeps its budget if nothing else is said: the browser's database, or files of Node's user. */

import { BrowserStore } from "./browser_store.js";
import type { Store } from "./budget.js";
import { InvalidInput } from "./wire/errors.js";

/** Chosen when it is first used, so that a client can be made anywhere. */
export class DefaultStore implements Store {
  private chosen: Promise<Store> | null = null;

  async get(key: string): Promise<string | null> {
    return (await this.place()).get(key);
  }

  async claim(key: string, value: string): Promise<string> {
    return (await this.place()).claim(key, value);
  }

  async put(key: string, value: string): Promise<void> {
    return (await this.place()).put(key, value);
  }

  async check(): Promise<void> {
    await (await this.place()).check?.();
  }

  private place(): Promise<Store> {
    return (this.chosen ??= choose());
  }
}

async function choose(): Promise<Store> {
  if (typeof indexedDB !== "undefined") return new BrowserStore();
  try {
    const home = "./node.js"; // not a literal below: bundlers for browsers would follow it
    const { FileStore, defaultDirectory } = (await import(home)) as typeof import("./node.js");
    return new FileStore(defaultDirectory());
  } catch {
    const remedy = "give a FileStore of @reticent/client/node, or a store of your own that outlives the process";
    throw new InvalidInput("store", "missing", "given where there is neither IndexedDB nor Node's files", remedy);
  }
}
