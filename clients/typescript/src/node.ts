// SPDX-License-Identifier: Apache-2.0
/** What is special to Node: a device's budget in files. */

import { link, mkdir, open, readFile, rename, unlink } from "node:fs/promises";
import { createHash } from "node:crypto";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

import type { Store } from "./budget.js";
import { InvalidInput } from "./wire/errors.js";
import { randomName } from "./wire/randomness.js";

/**
 * Where the budget of the user who runs this process is kept by default: `reticent/budget` in `$XDG_STATE_HOME`, by default
 * `~/.local/state`; on Windows in `%LOCALAPPDATA%`.
 */
export function defaultDirectory(): string {
  const windows = process.platform === "win32";
  const stated = process.env[windows ? "LOCALAPPDATA" : "XDG_STATE_HOME"] ?? "";
  // The specification of these variables says to ignore a relative path.
  const home = isAbsolute(stated) ? stated : join(homedir(), windows ? "AppData/Local" : ".local/state");
  return join(home, "reticent", "budget");
}

/**
 * One file per key in a directory of its own. A claim is a link to a whole file that exists or does not, so that two
 * processes cannot both make it and none reads half of one; files are flushed to the disk before a claim is good.
 */
export class FileStore implements Store {
  constructor(private readonly directory: string) {}

  /** A file is written and taken away again. */
  async check(): Promise<void> {
    try {
      await unlink(await this.write(""));
    } catch (problem) {
      const kind = `${this.directory} (${(problem as NodeJS.ErrnoException).code})`;
      const remedy = "give a FileStore of a directory that this user can write";
      throw new InvalidInput("store", kind, "a directory that outlives this process", remedy);
    }
  }

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
