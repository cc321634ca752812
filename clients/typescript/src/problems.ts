// SPDX-License-Identifier: Apache-2.0
/** What can go wrong on the way to the service: its own words (RFC 9457), or none before the deadline. */

import { ReticentError } from "./wire/errors.js";

interface Explanation {
  readonly title: string;
  readonly detail?: string | null;
  readonly field?: string | null;
  readonly bound?: string | null;
  readonly remedy?: string | null;
}

/** The service refused a request. Every part of its explanation is a property; the message reads as one sentence. */
export class ServiceError extends ReticentError {
  override name = "ServiceError";
  readonly title: string;
  readonly detail: string | null;
  readonly field: string | null;
  readonly bound: string | null;
  readonly remedy: string | null;

  constructor(
    /** The HTTP status. */
    readonly status: number,
    explanation: Explanation,
    /** The kind of problem, such as `episode-expired`; empty if the answer did not come from the service itself. */
    readonly problem = "",
    /** Seconds that it asked to wait, null if it asked nothing. */
    readonly retryAfter: number | null = null,
  ) {
    super(sentence(status, explanation));
    this.title = explanation.title;
    this.detail = explanation.detail ?? null;
    this.field = explanation.field ?? null;
    this.bound = explanation.bound ?? null;
    this.remedy = explanation.remedy ?? null;
  }

  /** Whether the same request may succeed later. */
  get passing(): boolean {
    return this.status === 429 || (this.status >= 500 && this.status !== 501);
  }

  /** The problem in an answer. An answer of something else on the way, such as a proxy, becomes one too. */
  static read(status: number, body: string, retryAfter: string | null): ServiceError {
    const content = jsonObject(body) ?? {};
    const text = (key: string) => (content[key] === undefined || content[key] === null ? null : String(content[key]));
    const explanation = {
      title: text("title") ?? `the answer was HTTP ${status} without an explanation`,
      detail: text("detail"), field: text("field"), bound: text("bound"), remedy: text("remedy"),
    };
    // A date, which this service never sends, counts as no wish.
    const seconds = retryAfter === null || retryAfter.trim() === "" ? NaN : Number(retryAfter);
    const problem = (text("type") ?? "").replace(/^urn:reticent:problem:/, "");
    return new ServiceError(status, explanation, problem, Number.isFinite(seconds) ? Math.max(0, seconds) : null);
  }
}

/** No answer before the deadline. Whether the last request arrived is unknown; sending it again is safe. */
export class Unreachable extends ReticentError {
  override name = "Unreachable";

  constructor(readonly url: string, readonly attempts: number, readonly seconds: number, cause: unknown) {
    const times = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
    const why = cause instanceof Error ? cause.message : String(cause);
    super(
      `no answer from ${url} in ${times} over ${seconds.toFixed(1)} s (${why}); check the address, or try again later: ` +
        "repeating a request is safe",
      { cause },
    );
  }
}

/** A JSON object; null if the text is none. */
export function jsonObject(text: string): Record<string, unknown> | null {
  try {
    const content: unknown = JSON.parse(text);
    return typeof content === "object" && content !== null && !Array.isArray(content)
      ? (content as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

/** One sentence; a part that the detail already says is not said again. */
function sentence(status: number, { title, detail, field, bound, remedy }: Explanation): string {
  const said = detail ?? "";
  const parts = [said && said !== title ? `${title}: ${said}` : title];
  if (field && !said.includes(field)) parts.push(`field ${field}`);
  if (bound && !said.includes(bound)) parts.push(`must be ${bound}`);
  if (remedy && !said.includes(remedy)) parts.push(remedy);
  return `${parts.join("; ")} (HTTP ${status})`;
}
