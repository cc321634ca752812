// SPDX-License-Identifier: Apache-2.0
/**
 * One JSON request, one answer: retries that are safe, and an end to waiting.
 *
 * Every request of this client may be sent twice: it reads something published, or it carries an episode id that the
 * client chose. So a lost answer, a 5xx and a 429 are tried again until the deadline, with pauses that double and are
 * drawn at random, or that the service asked for. All other refusals are final at once.
 */

import { ServiceError, Unreachable, jsonObject } from "./problems.js";
import { InvalidInput } from "./wire/errors.js";
import { uniform53 } from "./wire/randomness.js";

/** Seconds: pauses are uniform between 0 and a bound that starts at the first and doubles up to the second. */
const [FIRST_PAUSE, LONGEST_PAUSE] = [0.1, 5];

/** Told of every attempt: its route with ids left out, its seconds, and the HTTP status (0 if there was no answer). */
export type Observer = (route: string, seconds: number, status: number) => void;

export interface ConnectionOptions {
  /** Seconds for one request, all attempts and pauses included; 30 by default. */
  readonly deadline?: number;
  /** Seconds for one attempt; 10 by default. */
  readonly timeout?: number;
  /** Allow plain `http` away from this machine. */
  readonly plainHttp?: boolean;
  readonly observer?: Observer;
}

/** Sends requests to one service. */
export class Connection {
  readonly url: string;
  readonly deadline: number;
  private readonly timeout: number;
  private readonly headers: Record<string, string>;
  private readonly observer: Observer;

  /** `key` is the bearer key; null where something on the way, such as the app's own backend, adds it. */
  constructor(url: string, key: string | null, options: ConnectionOptions = {}) {
    const { deadline = 30, timeout = 10, plainHttp = false, observer = () => {} } = options;
    const parts = URL.canParse(url) ? new URL(url) : null;
    if (parts === null || !/^https?:$/.test(parts.protocol) || !parts.hostname || parts.search || parts.hash) {
      throw new InvalidInput("url", url, "http(s)://host[:port][/path]", "give the address of the service");
    }
    if (parts.protocol === "http:" && !plainHttp && !isLoopback(parts.hostname)) {
      const remedy = "use https, or plainHttp: true in a network of your own";
      throw new InvalidInput("url", url, "https, away from this machine", remedy);
    }
    for (const [field, value] of [["deadline", deadline], ["timeout", timeout]] as const) {
      if (!(value > 0 && Number.isFinite(value))) {
        const remedy = "30 and 10 are the defaults";
        throw new InvalidInput(field, value, "a finite number of seconds above 0", remedy);
      }
    }
    this.url = url.replace(/\/+$/, "");
    this.deadline = deadline;
    this.timeout = timeout;
    this.headers = { Accept: "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    this.observer = observer;
  }

  /** The JSON object at `path`. */
  async get(path: string, route = path): Promise<Record<string, unknown>> {
    return this.request("GET", path, null, route);
  }

  /** The answer to a JSON object. Only for requests that are safe to repeat, which all of this service's are. */
  async post(path: string, content: object, route = path): Promise<Record<string, unknown>> {
    return this.request("POST", path, JSON.stringify(content), route);
  }

  private async request(method: string, path: string, body: string | null, route: string) {
    const start = now();
    let bound = FIRST_PAUSE;
    for (let attempts = 1; ; attempts++) {
      const left = this.deadline - (now() - start);
      let problem: unknown;
      let pause = uniform53() * bound;
      try {
        return await this.attempt(method, path, body, route, Math.min(this.timeout, Math.max(left, 0.001)));
      } catch (failure) {
        if (failure instanceof ServiceError) {
          if (!failure.passing) throw failure;
          pause = failure.retryAfter ?? pause;
        }
        problem = failure;
      }
      bound = Math.min(2 * bound, LONGEST_PAUSE);
      const elapsed = now() - start;
      if (elapsed + pause >= this.deadline) {
        throw problem instanceof ServiceError ? problem : new Unreachable(this.url, attempts, elapsed, problem);
      }
      await new Promise((resume) => setTimeout(resume, 1000 * pause));
    }
  }

  private async attempt(method: string, path: string, body: string | null, route: string, seconds: number) {
    const start = now();
    let status = 0;
    let text: string;
    let answer: Response;
    try {
      answer = await fetch(this.url + path, {
        method,
        body,
        headers: body === null ? this.headers : { ...this.headers, "Content-Type": "application/json" },
        signal: AbortSignal.timeout(Math.ceil(1000 * seconds)),
        // The key and the user's name go to this address and nowhere else, and nothing else goes with them.
        redirect: "manual",
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
      });
      text = await answer.text();
      status = answer.status;
    } finally {
      this.observer(`${method} ${route}`, now() - start, status);
    }
    if (answer.type === "opaqueredirect") {
      throw new ServiceError(status, { title: "the address leads elsewhere", remedy: "give the service's own address" });
    }
    if (!answer.ok) throw ServiceError.read(status, text, answer.headers.get("Retry-After"));
    const content = jsonObject(text);
    if (content === null) {
      const remedy = "check that the address is a service";
      throw new ServiceError(status, { title: "the answer is not a JSON object", remedy });
    }
    return content;
  }
}

/** Whether a host, as a URL writes it, is this machine. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function now(): number {
  return performance.now() / 1000;
}
