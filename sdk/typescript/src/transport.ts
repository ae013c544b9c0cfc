// Adds headers to each request, retries it where that is safe, and throws an undeclared response as an error.
import type { Credential } from "./credential.js";
import { ConclaveError, errorOf } from "./errors.js";
import { resultOf } from "./responses.js";
import { type RetryPolicy, takesIdempotencyKey, waitAfterFailure, waitAfterResponse } from "./retry.js";

export interface TransportOptions {
  credential: Credential;
  retry: RetryPolicy;
  /** Timeout of an attempt in seconds. */
  timeout: number;
  fetch: typeof globalThis.fetch;
}

/** Options that one call may override. */
export interface SendOptions {
  retry?: RetryPolicy | undefined;
  timeout?: number | undefined;
}

/** Sends the request of an operation, given by its method and path template, and returns the response's JSON. */
export type Send = (request: Request, operation: string, options?: SendOptions) => Promise<unknown>;

export function transport(defaults: TransportOptions): Send {
  return async (request, operation, own = {}) => {
    const options = { ...defaults, retry: own.retry ?? defaults.retry, timeout: own.timeout ?? defaults.timeout };
    addHeaders(request, options.credential);
    for (let attempt = 0; ; attempt++) {
      const outcome = await once(request, operation, attempt, options);
      if ("result" in outcome) {
        return outcome.result;
      }
      await sleep(outcome.wait, request.signal);
    }
  };
}

/** Adds the credential, and this call's Idempotency-Key, which all attempts share. */
function addHeaders(request: Request, credential: Credential): void {
  request.headers.set("Authorization", credential.header);
  if (takesIdempotencyKey(request.method, new URL(request.url).pathname) && !request.headers.has("Idempotency-Key")) {
    request.headers.set("Idempotency-Key", crypto.randomUUID());
  }
}

/** Sends a request; returns the result, or the seconds before the next attempt. */
async function once(
  request: Request,
  operation: string,
  attempt: number,
  options: TransportOptions,
): Promise<{ result: unknown } | { wait: number }> {
  // Called without an object: some runtimes reject `fetch` as another object's method.
  const { credential, fetch } = options;
  let response: Response;
  let body: ArrayBuffer;
  try {
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(options.timeout * 1000)]);
    response = await fetch(request.clone(), { signal, redirect: "manual" });
    // Read inside the try block, so that a connection that breaks meanwhile is retried.
    body = await response.arrayBuffer();
  } catch (cause) {
    request.signal.throwIfAborted();
    const wait = waitAfterFailure(options.retry, request, attempt);
    if (wait === undefined) {
      throw unreachable(cause, credential);
    }
    return { wait };
  }
  if (response.status < 400) {
    return { result: resultOf(operation, response, body, credential) };
  }
  const wait = waitAfterResponse(options.retry, request, attempt, response);
  if (wait === undefined) {
    throw errorOf(response, body, credential);
  }
  return { wait };
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
  // Node describes a refused connection only in the cause.
  return cause.cause instanceof Error ? `${cause.message}: ${cause.cause.message}` : cause.message;
}

/** Waits; fails at once when the caller aborts. */
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
