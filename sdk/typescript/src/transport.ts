// A `fetch` that adds what each request needs, sends it again where that is safe, and throws what is not the declared response as an
// error.
import type { Credential } from "./credential.js";
import { ConclaveError, errorOf } from "./errors.js";
import { checked } from "./responses.js";
import { type RetryPolicy, takesIdempotencyKey, waitAfterFailure, waitAfterResponse } from "./retry.js";

export interface TransportOptions {
  credential: Credential;
  retry: RetryPolicy;
  /** Seconds that an attempt may take. */
  timeout: number;
  fetch: typeof globalThis.fetch;
}

/** Sends the request of an operation, which is its method and the template of its URL. */
export type Send = (request: Request, operation: string) => Promise<Response>;

export function transport(options: TransportOptions): Send {
  return async (request, operation) => {
    addHeaders(request, options.credential);
    for (let attempt = 0; ; attempt++) {
      const wait = await once(request, operation, attempt, options);
      if (wait instanceof Response) {
        return wait;
      }
      await sleep(wait, request.signal);
    }
  };
}

/** Adds the credential, and the key of this call, which all of its attempts share. */
function addHeaders(request: Request, credential: Credential): void {
  request.headers.set("Authorization", credential.header);
  if (takesIdempotencyKey(request.method, new URL(request.url).pathname) && !request.headers.has("Idempotency-Key")) {
    request.headers.set("Idempotency-Key", crypto.randomUUID());
  }
}

/** Sends a request; returns the response, or the seconds to wait before the next attempt. */
async function once(
  request: Request,
  operation: string,
  attempt: number,
  options: TransportOptions,
): Promise<Response | number> {
  const { credential } = options;
  let response: Response;
  let body: ArrayBuffer;
  try {
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(options.timeout * 1000)]);
    response = await options.fetch(request.clone(), { signal, redirect: "manual" });
    // Read here, so that a connection that breaks meanwhile is noticed.
    body = await response.arrayBuffer();
  } catch (cause) {
    request.signal.throwIfAborted();
    const wait = waitAfterFailure(options.retry, request, attempt);
    if (wait === undefined) {
      throw unreachable(cause, credential);
    }
    return wait;
  }
  if (response.status < 400) {
    return checked(operation, response, body, credential);
  }
  const wait = waitAfterResponse(options.retry, request, attempt, response);
  if (wait === undefined) {
    throw errorOf(response, body, credential);
  }
  return wait;
}

function unreachable(cause: unknown, credential: Credential): ConclaveError {
  const message = reason(cause);
  const hidden = credential.hide(message);
  // A cause is printed with its error.
  return new ConclaveError("connection_failed", hidden, hidden === message ? { cause } : {});
}

function reason(cause: unknown): string {
  if (!(cause instanceof Error)) {
    return String(cause);
  }
  // What Node says of a refused connection is in the cause.
  return cause.cause instanceof Error ? `${cause.message}: ${cause.cause.message}` : cause.message;
}

/** Waits; fails at once when the caller gives up. */
function sleep(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, seconds * 1000);
    signal.addEventListener("abort", abort, { once: true });
  });
}
