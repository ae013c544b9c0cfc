// Conditions and delays of retries, without I/O. The transport applies them.
import { retryAfter } from "./errors.js";

/** Limits of retries: their number, and the longest `Retry-After` that is honoured. */
export interface RetryPolicy {
  /** Attempts after the first; 4 by default. 0 disables retries. */
  maxRetries?: number | undefined;
  /** Seconds; 30 by default. After a longer `Retry-After` the error is thrown at once, with `retryAfter` set. */
  maxRetryAfter?: number | undefined;
}

// With 429 and 503, the server has not executed the request. 502 and 504 come from a proxy that lost or never reached the server.
const STATUSES = [429, 502, 503, 504];
const FIRST_WAIT = 0.25;
const LONGEST_WAIT = 8;
// POSTs that accept no `Idempotency-Key`.
const WITHOUT_KEY = /\/v1\/(rooms\/[^/]+\/ingress|codes\/[^/]+\/exchange)$/;
// DELETEs that accept one, since their response is a report.
const WITH_KEY = /\/ext\/v1\/identities\/[^/]+$/;

/** Returns whether a call changes something and accepts an `Idempotency-Key`. */
export function takesIdempotencyKey(method: string, path: string): boolean {
  return method === "POST" ? !WITHOUT_KEY.test(path) : method === "DELETE" && WITH_KEY.test(path);
}

/** Returns whether sending a request twice has the effect of sending it once. */
export function isRepeatable(request: Request): boolean {
  return ["GET", "PUT", "DELETE"].includes(request.method) || request.headers.has("Idempotency-Key");
}

/** Returns the seconds before the next attempt, or undefined if this response is final. */
export function waitAfterResponse(
  policy: RetryPolicy,
  request: Request,
  attempt: number,
  response: Response,
): number | undefined {
  if (!STATUSES.includes(response.status) || !mayRepeat(policy, request, attempt)) {
    return undefined;
  }
  const after = retryAfter(response);
  if (after === undefined) {
    return backoff(attempt);
  }
  return after <= (policy.maxRetryAfter ?? 30) ? after : undefined;
}

/** Returns the seconds to wait after a broken connection, or undefined if the failure is final. */
export function waitAfterFailure(policy: RetryPolicy, request: Request, attempt: number): number | undefined {
  return mayRepeat(policy, request, attempt) ? backoff(attempt) : undefined;
}

function mayRepeat(policy: RetryPolicy, request: Request, attempt: number): boolean {
  return attempt < (policy.maxRetries ?? 4) && isRepeatable(request);
}

function backoff(attempt: number): number {
  const longest = Math.min(FIRST_WAIT * 2 ** attempt, LONGEST_WAIT);
  return longest * (0.5 + Math.random() / 2);
}
