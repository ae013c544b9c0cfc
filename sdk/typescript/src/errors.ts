// The one error that every call throws.
import type { ApiErrorCode } from "./generated/types.gen.js";

/** The code of an error: one of the API, or of this package. A newer server may have others. */
export type ErrorCode = ApiErrorCode | "connection_failed" | "invalid_key" | "invalid_parameter" | "unknown";

/** A call that failed, because the server refused it or could not be reached. */
export class ConclaveError extends Error {
  override readonly name = "ConclaveError";
  /**
   * What to branch on, such as `room_exists`. `connection_failed` if no response came, `unknown` if it was not the API's: a redirect,
   * or the page of a proxy.
   */
  readonly code: ErrorCode;
  /** The HTTP status, if a response came. */
  readonly status: number | undefined;
  /** The field of the request that was refused, or the permission that is missing. */
  readonly field: string | undefined;
  /** The id of the request in the server's log. */
  readonly requestId: string | undefined;
  /** How many seconds to wait before another attempt, if the server said so. */
  readonly retryAfter: number | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(`${code}: ${message}`, { cause: details.cause });
    this.code = code;
    this.status = details.status;
    this.field = details.field;
    this.requestId = details.requestId;
    this.retryAfter = details.retryAfter;
  }
}

interface ErrorDetails {
  status?: number | undefined;
  field?: string | undefined;
  requestId?: string | undefined;
  retryAfter?: number | undefined;
  cause?: unknown;
}

/** What hides an API key. */
interface Hiding {
  hide(text: string): string;
}

// Characters of a response that is not the API's; enough to tell who has sent it.
const LONGEST_EXCERPT = 200;

/** Returns the error of a response that refuses, of which `body` is the whole. */
export function errorOf(response: Response, body: ArrayBuffer, credential: Hiding): ConclaveError {
  const found = envelope(body);
  if (found === undefined) {
    return unexpected(response, body, credential, `the response has the status ${response.status}`);
  }
  return failure(found.code, credential.hide(found.message), response, found.field);
}

/** Returns the error of a response that is not the API's, with its first bytes. */
export function unexpected(response: Response, body: ArrayBuffer, credential: Hiding, problem: string): ConclaveError {
  const excerpt = (text: string) => JSON.stringify(credential.hide(text).slice(0, LONGEST_EXCERPT));
  const location = response.status >= 300 && response.status < 400 ? response.headers.get("Location") : null;
  const redirect = location === null ? "" : `; redirects are not followed, and this one leads to ${excerpt(location)}`;
  // More than is shown, so that a key is not cut in two.
  const start = new TextDecoder().decode(body.slice(0, 16 * LONGEST_EXCERPT));
  return failure("unknown", `${problem}${redirect}: ${excerpt(start)}`, response);
}

function failure(code: string, message: string, response: Response, field?: string): ConclaveError {
  const requestId = response.headers.get("X-Request-Id") ?? undefined;
  return new ConclaveError(code, message, {
    status: response.status,
    field,
    requestId,
    retryAfter: retryAfter(response),
  });
}

/** Returns the seconds that a response says to wait. */
export function retryAfter(response: Response): number | undefined {
  const text = response.headers.get("Retry-After") ?? "";
  return /^\d+$/.test(text) ? Number(text) : undefined;
}

/** Returns the code, the message and the field of the API's error, or nothing if a body has none. */
function envelope(body: ArrayBuffer): { code: string; message: string; field: string | undefined } | undefined {
  try {
    const { code, message, field } = JSON.parse(new TextDecoder().decode(body)).error;
    if (typeof code === "string" && typeof message === "string") {
      return { code, message, field: typeof field === "string" ? field : undefined };
    }
  } catch {
    // A proxy in between answered.
  }
  return undefined;
}
