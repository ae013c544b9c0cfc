// When a request is sent again, and when. Without I/O: the transport follows it.
import { retryAfter } from "./errors.js";

/** How often a request is sent again, and how long a `Retry-After` may be that is waited for. */
export interface RetryPolicy {
  /** Further attempts after the first; 4 by default. 0 sends everything once. */
  maxRetries?: number | undefined;
  /** Seconds; 30 by default. After a longer `Retry-After` the error is thrown at once, and says how long to wait. */
  maxRetryAfter?: number | undefined;
}

// With 429 and 503, the server has not done what was asked. 502 and 504 are a proxy's, which has lost or not reached the server.
const STATUSES = [429, 502, 503, 504];
const FIRST_WAIT = 0.25;
const LONGEST_WAIT = 8;
// The calls that change something and take no `Idempotency-Key`.
const WITHOUT_KEY = /\/v1\/(rooms\/[^/]+\/ingress|codes\/[^/]+\/exchange)$/;

/** Tells whether a call changes something and takes an `Idempotency-Key`. */
export function takesIdempotencyKey(method: string, path: string): boolean {
  return method === "POST" && !WITHOUT_KEY.test(path);
}

/** Tells whether sending a request twice has the effect of sending it once. */
export function isRepeatable(request: Request): boolean {
  return ["GET", "PUT", "DELETE"].includes(request.method) || request.headers.has("Idempotency-Key");
}

/** Returns the seconds to wait before the next attempt, or nothing if this response stands. */
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

/** Returns the seconds to wait after a broken connection, or nothing if it is an error. */
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
