// Common parts of all API calls. The methods themselves are generated.
import { baseUrlOf, Credential } from "./credential.js";
import { fromEnvironment } from "./environment.js";
import { ConclaveError } from "./errors.js";
import { pathOf } from "./paths.js";
import { type RetryPolicy, takesIdempotencyKey } from "./retry.js";
import { type Send, transport } from "./transport.js";

export interface ConclaveOptions {
  /** The API's address, such as `https://meet.example.org`; by default `CONCLAVE_URL` of the environment. */
  url?: string | undefined;
  /** A key of the project, `vk_…`; by default `CONCLAVE_KEY` of the environment. */
  apiKey?: string | undefined;
  retry?: RetryPolicy | undefined;
  /** Timeout of an attempt in seconds; 30 by default. */
  timeout?: number | undefined;
  /** Sends the requests, instead of the runtime's `fetch`. */
  fetch?: typeof globalThis.fetch | undefined;
}

/** Options of one call. */
export interface CallOptions {
  /** Aborts the call, with its retries and waits. */
  signal?: AbortSignal | undefined;
  /** Replaces the generated Idempotency-Key. Ignored by operations without one. */
  idempotencyKey?: string | undefined;
  /** Additional request headers. */
  headers?: Record<string, string> | undefined;
  /** Replaces the client's policy. */
  retry?: RetryPolicy | undefined;
  /** Timeout of an attempt in seconds; the client's by default. */
  timeout?: number | undefined;
}

/** Options of a link to a file. */
export interface LinkOptions extends CallOptions {
  /**
   * Lifetime of the link: 1 second to 7 days.
   * @default 3600
   */
  expiresInSeconds?: number | undefined;
}

/** Parts of an operation's request. */
interface Parameters {
  path?: Record<string, string>;
  query?: object | undefined;
  body?: unknown;
}

/** Sends an operation's request, and returns its result. */
type Call = <T>(operation: string, parameters: Parameters, options?: CallOptions) => Promise<T>;

/** The handwritten part of `Conclave.ext`: sends its calls by the client. */
export class Extension {
  protected readonly call: Call;

  constructor(call: Call) {
    this.call = call;
  }
}

/** The handwritten part of a client. */
export class ConclaveClient {
  readonly #url: string;
  readonly #send: Send;

  /** @throws {ConclaveError} `invalid_url` or `invalid_key` if the URL or the key is missing or malformed. */
  constructor(options: ConclaveOptions = {}) {
    const { retry = {}, timeout = 30, fetch = globalThis.fetch } = options;
    const [url, apiKey] = fromEnvironment(options.url, options.apiKey);
    this.#send = transport({ credential: new Credential(apiKey), retry, timeout, fetch });
    this.#url = baseUrlOf(url);
  }

  /**
   * Returns a link to a recording's file on the server's disk, for clients without an API key. It is valid for an hour, or for
   * `expiresInSeconds`.
   *
   * @param egressId The egress id.
   * @throws {ConclaveError} `recording_not_found`
   */
  async recordingLink(egressId: string, options: LinkOptions = {}): Promise<string> {
    const { expiresInSeconds = 3600, ...others } = options;
    const parameters = { path: { egress_id: egressId }, query: { expires_in_seconds: expiresInSeconds } };
    const link = await this.call<{ path: string }>("GET /files/recordings/{egress_id}/link", parameters, others);
    // A path without a leading slash would change the host.
    if (!link.path.startsWith("/")) {
      throw new ConclaveError("unknown", "the response has no path of this server", { status: 200 });
    }
    return this.#url + link.path;
  }

  /**
   * Sends an operation's request, and returns its result.
   *
   * @param operation Its method and path template.
   */
  protected async call<T>(operation: string, parameters: Parameters, options: CallOptions = {}): Promise<T> {
    const [method, template] = operation.split(" ") as [string, string];
    const path = pathOf(template, parameters.path ?? {});
    const headers = new Headers(options.headers);
    const init: RequestInit = { method, headers, redirect: "manual" };
    if (parameters.body !== undefined) {
      headers.set("Content-Type", "application/json");
      init.body = JSON.stringify(parameters.body);
    }
    if (options.idempotencyKey !== undefined && takesIdempotencyKey(method, path)) {
      headers.set("Idempotency-Key", options.idempotencyKey);
    }
    if (options.signal) {
      init.signal = options.signal;
    }
    const request = new Request(this.#url + path + queryOf(parameters.query), init);
    return (await this.#send(request, operation, options)) as T;
  }
}

/** Returns a URL's query, without parameters that have no value. */
function queryOf(parameters: object = {}): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length === 0 ? "" : `?${query}`;
}
