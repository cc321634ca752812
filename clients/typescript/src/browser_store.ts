// SPDX-License-Identifier: Apache-2.0
/**
 * The browser's database (IndexedDB): one for all pages and workers of the app's origin; who clears it clears the budget.
 *
 * Why not `localStorage`: two pages that claim the same place at the same moment may both get it, since each sees the
 * other's writes late, even if a lock of the browser's (`navigator.locks`) orders them. A transaction here is indivisible
 * between pages, and with strict durability it is on the disk when it is complete.
 */

import type { Store } from "./budget.js";
import { InvalidInput } from "./wire/errors.js";

const [DATABASE, TABLE] = ["reticent", "kept"];

export class BrowserStore implements Store {
  private opened: Promise<IDBDatabase> | null = null;

  constructor() {
    if (typeof indexedDB === "undefined") {
      const remedy = "give a FileStore of @reticent/client/node, or one of your own";
      throw new InvalidInput("store", "missing", "given where there is no IndexedDB, outside of browsers", remedy);
    }
  }

  async check(): Promise<void> {
    await (this.opened ??= open());
  }

  async get(key: string): Promise<string | null> {
    return this.inTransaction("readonly", (table, done) => {
      const asked: IDBRequest<string | undefined> = table.get(key);
      asked.onsuccess = () => done(asked.result ?? null);
    });
  }

  async claim(key: string, value: string): Promise<string> {
    return this.inTransaction("readwrite", (table, done) => {
      const asked: IDBRequest<string | undefined> = table.get(key);
      asked.onsuccess = () => {
        if (asked.result === undefined) table.add(value, key);
        done(asked.result ?? value);
      };
    });
  }

  async put(key: string, value: string): Promise<void> {
    return this.inTransaction("readwrite", (table, done) => {
      table.put(value, key);
      done();
    });
  }

  /** What `work` gave to `done`, once all of it is kept; nothing is if it fails. */
  private async inTransaction<T>(
    mode: IDBTransactionMode, work: (table: IDBObjectStore, done: (result: T) => void) => void,
  ): Promise<T> {
    const database = await (this.opened ??= open());
    return new Promise((resolve, reject) => {
      const transaction = database.transaction(TABLE, mode, { durability: "strict" });
      let result: T;
      transaction.oncomplete = () => resolve(result);
      transaction.onabort = () => reject(transaction.error);
      work(transaction.objectStore(TABLE), (given) => (result = given));
    });
  }
}

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open(DATABASE, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(TABLE);
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}
