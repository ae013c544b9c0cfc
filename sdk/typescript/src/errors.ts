// The one error that every call throws.

/** A call that failed, because the server refused it or could not be reached. */
export class ConclaveError extends Error {
  override readonly name = "ConclaveError";
  /**
   * What to branch on, such as `room_exists`. `connection_failed` if no response came, `unknown` if it was not the API's.
   */
  readonly code: string;
  /** The HTTP status, if a response came. */
  readonly status?: number;
  /** The field of the request that was refused, or the permission that is missing. */
  readonly field?: string;
  /** The id of the request in the server's log. */
  readonly requestId?: string;
  /** How many seconds to wait before another attempt, if the server said so. */
  readonly retryAfter?: number;

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    super(`${code}: ${message}`, { cause: details.cause });
    this.code = code;
    this.status = details.status;
    this.field = details.field;
    this.requestId = details.requestId;
    this.retryAfter = details.retryAfter;
  }
}

interface ErrorDetails {
  status?: number;
  field?: string;
  requestId?: string;
  retryAfter?: number;
  cause?: unknown;
}

/** Returns the error of a response, of which `body` is the whole. */
export function errorOf(response: Response, body: ArrayBuffer): ConclaveError {
  const { code, message, field } = envelope(response, body);
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

function envelope(response: Response, body: ArrayBuffer): { code: string; message: string; field?: string } {
  try {
    const { error } = JSON.parse(new TextDecoder().decode(body));
    if (typeof error.code === "string" && typeof error.message === "string") {
      return error;
    }
  } catch {
    // Below.
  }
  // A proxy in between answered.
  return { code: "unknown", message: `the response has the status ${response.status}` };
}
