// A `fetch` that adds what each request needs, sends it again where that is safe, and throws a refusal as an error.
import { ConclaveError, errorOf } from "./errors.js";
import { type RetryPolicy, takesIdempotencyKey, waitAfterFailure, waitAfterResponse } from "./retry.js";

export interface TransportOptions {
  apiKey: string;
  retry: RetryPolicy;
  /** Seconds that an attempt may take. */
  timeout: number;
  fetch: typeof globalThis.fetch;
}

export function transport(options: TransportOptions): (request: Request) => Promise<Response> {
  return async (request) => {
    addHeaders(request, options.apiKey);
    for (let attempt = 0; ; attempt++) {
      const wait = await once(request, attempt, options);
      if (wait instanceof Response) {
        return wait;
      }
      await sleep(wait, request.signal);
    }
  };
}

/** Adds the credential, and the key of this call, which all of its attempts share. */
function addHeaders(request: Request, apiKey: string): void {
  request.headers.set("Authorization", `Bearer ${apiKey}`);
  if (takesIdempotencyKey(request.method, new URL(request.url).pathname) && !request.headers.has("Idempotency-Key")) {
    request.headers.set("Idempotency-Key", crypto.randomUUID());
  }
}

/** Sends a request; returns the response, or the seconds to wait before the next attempt. */
async function once(request: Request, attempt: number, options: TransportOptions): Promise<Response | number> {
  let response: Response;
  let body: ArrayBuffer;
  try {
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(options.timeout * 1000)]);
    response = await options.fetch(request.clone(), { signal });
    // Read here, so that a connection that breaks meanwhile is noticed.
    body = await response.arrayBuffer();
  } catch (cause) {
    request.signal.throwIfAborted();
    const wait = waitAfterFailure(options.retry, request, attempt);
    if (wait === undefined) {
      throw new ConclaveError("connection_failed", reason(cause), { cause });
    }
    return wait;
  }
  if (response.ok) {
    const { status, headers } = response;
    return new Response(status === 204 ? null : body, { status, headers });
  }
  const wait = waitAfterResponse(options.retry, request, attempt, response);
  if (wait === undefined) {
    throw errorOf(response, body);
  }
  return wait;
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
