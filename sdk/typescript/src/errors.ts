// The error class of all calls.
import type { ApiErrorCode } from "./generated/types.gen.js";

/** Code of an error: the API's, or this package's. Newer servers may have others. */
export type ErrorCode = ApiErrorCode | "connection_failed" | "invalid_key" | "invalid_parameter" | "unknown";

/** A failed call: rejected by the server, or without a response. */
export class ConclaveError extends Error {
  override readonly name = "ConclaveError";
  /**
   * Identifies the error for branching, such as `room_exists`. `connection_failed` without a response, `unknown` if the response is not
   * the API's, such as a redirect or a proxy's page.
   */
  readonly code: ErrorCode;
  /** The HTTP status, or undefined without a response. */
  readonly status: number | undefined;
  /** The rejected field of the request, or the missing permission. */
  readonly field: string | undefined;
  /** The request's id in the server's log. */
  readonly requestId: string | undefined;
  /** The server's `Retry-After` in seconds, or undefined if the response had none. */
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

/** An object that masks an API key. */
interface Hiding {
  hide(text: string): string;
}

// Characters of a foreign response in an error: enough to identify its sender.
const LONGEST_EXCERPT = 200;

/** Returns the error in a response of 400 or above; `body` is its entire body. */
export function errorOf(response: Response, body: ArrayBuffer, credential: Hiding): ConclaveError {
  const found = envelope(body);
  if (found === undefined) {
    return unexpected(response, body, credential, `the response has the status ${response.status}`);
  }
  return failure(found.code, credential.hide(found.message), response, found.field);
}

/** Returns the error for a response that is not the API's, with an excerpt. */
export function unexpected(response: Response, body: ArrayBuffer, credential: Hiding, problem: string): ConclaveError {
  const excerpt = (text: string) => JSON.stringify(credential.hide(text).slice(0, LONGEST_EXCERPT));
  const location = response.status >= 300 && response.status < 400 ? response.headers.get("Location") : null;
  const redirect = location === null ? "" : `; redirects are not followed, and this one leads to ${excerpt(location)}`;
  // Masks the key in more than the excerpt, so that no truncated key remains.
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

/** Returns a response's `Retry-After` in seconds. */
export function retryAfter(response: Response): number | undefined {
  const text = response.headers.get("Retry-After") ?? "";
  return /^\d+$/.test(text) ? Number(text) : undefined;
}

/** Returns the code, the message and the field of the API's error, or undefined if the body has none. */
function envelope(body: ArrayBuffer): { code: string; message: string; field: string | undefined } | undefined {
  try {
    const { code, message, field } = JSON.parse(new TextDecoder().decode(body)).error;
    if (typeof code === "string" && typeof message === "string") {
      return { code, message, field: typeof field === "string" ? field : undefined };
    }
  } catch {
    // A proxy's response.
  }
  return undefined;
}
