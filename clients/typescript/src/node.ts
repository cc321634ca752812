// SPDX-License-Identifier: Apache-2.0
/** What is special to Node: a device's budget in files. */

import { link, mkdir, open, readFile, rename, unlink } from "node:fs/promises";
import { createHash } from "node:crypto";
import { join } from "node:path";

import type { Store } from "./budget.js";
import { randomName } from "./wire/randomness.js";

/**
 * One file per key in a directory of its own. A claim is a link to a whole file that exists or does not, so that two
 * processes cannot both make it and none reads half of one; files are flushed to the disk before a claim is good.
 */
export class FileStore implements Store {
  constructor(private readonly directory: string) {}

  async get(key: string): Promise<string | null> {
    return readFile(this.path(key), "utf8").catch(absent);
  }

  async claim(key: string, value: string): Promise<string> {
    const written = await this.write(value);
    try {
      await link(written, this.path(key));
      await this.flush();
      return value;
    } catch (problem) {
      if ((problem as NodeJS.ErrnoException).code !== "EEXIST") throw problem;
      return await readFile(this.path(key), "utf8");
    } finally {
      await unlink(written);
    }
  }

  async put(key: string, value: string): Promise<void> {
    await rename(await this.write(value), this.path(key));
    await this.flush();
  }

  private path(key: string): string {
    // Names of users need not be names of files.
    return join(this.directory, `${createHash("sha256").update(key).digest("hex")}.json`);
  }

  /** A new file with this content, on the disk. */
  private async write(value: string): Promise<string> {
    await mkdir(this.directory, { recursive: true, mode: 0o700 });
    const path = join(this.directory, `${randomName()}.new`);
    const file = await open(path, "wx", 0o600);
    try {
      await file.writeFile(value, "utf8");
      await file.sync();
    } finally {
      await file.close();
    }
    return path;
  }

  /** The directory's own entries, on the disk. */
  private async flush(): Promise<void> {
    if (process.platform === "win32") return; // where directories cannot be opened
    const directory = await open(this.directory, "r");
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }
}

function absent(problem: NodeJS.ErrnoException): null {
  if (problem.code === "ENOENT") return null;
  throw problem;
}
