// What all calls of the API have in common. The methods themselves are generated.
import { baseUrlOf, Credential } from "./credential.js";
import { fromEnvironment } from "./environment.js";
import { ConclaveError } from "./errors.js";
import { pathOf } from "./paths.js";
import { type RetryPolicy, takesIdempotencyKey } from "./retry.js";
import { type Send, transport } from "./transport.js";

export interface ConclaveOptions {
  /** Where the API is, such as `https://meet.example.org`; by default `CONCLAVE_URL` of the environment. */
  url?: string | undefined;
  /** A key of the project, `vk_…`; by default `CONCLAVE_KEY` of the environment. */
  apiKey?: string | undefined;
  retry?: RetryPolicy | undefined;
  /** Seconds that an attempt may take; 30 by default. */
  timeout?: number | undefined;
  /** What sends the requests, if that is not the `fetch` of this runtime. */
  fetch?: typeof globalThis.fetch | undefined;
}

/** The options of one call. */
export interface CallOptions {
  /** Ends the call early, with its attempts and waits. */
  signal?: AbortSignal | undefined;
  /** Takes the place of the key that is made for each call. Ignored by operations that take none. */
  idempotencyKey?: string | undefined;
  /** Further headers of the request. */
  headers?: Record<string, string> | undefined;
  /** Takes the place of the client's. */
  retry?: RetryPolicy | undefined;
  /** Seconds that an attempt may take; the client's by default. */
  timeout?: number | undefined;
}

/** The options of a link to a file. */
export interface LinkOptions extends CallOptions {
  /**
   * How long the link is valid: 1 second to 7 days.
   * @default 3600
   */
  expiresInSeconds?: number | undefined;
}

/** What a request of an operation is made of. */
interface Parameters {
  path?: Record<string, string>;
  query?: object | undefined;
  body?: unknown;
}

/** Sends the request of an operation, and returns its result. */
type Call = <T>(operation: string, parameters: Parameters, options?: CallOptions) => Promise<T>;

/** The part of `Conclave.ext` that is written by hand: it sends its calls as the client sends its own. */
export class Extension {
  protected readonly call: Call;

  constructor(call: Call) {
    this.call = call;
  }
}

/** The part of a client that is written by hand. */
export class ConclaveClient {
  readonly #url: string;
  readonly #send: Send;

  /** @throws {ConclaveError} `invalid_url` or `invalid_key` if the URL or the key is missing or cannot be one. */
  constructor(options: ConclaveOptions = {}) {
    const { retry = {}, timeout = 30, fetch = globalThis.fetch } = options;
    const [url, apiKey] = fromEnvironment(options.url, options.apiKey);
    this.#send = transport({ credential: new Credential(apiKey), retry, timeout, fetch });
    this.#url = baseUrlOf(url);
  }

  /**
   * Returns a link to the file of a recording on the server's disk, for those without an API key. It is valid for an hour, or
   * `expiresInSeconds`.
   *
   * @param egressId The egress id.
   * @throws {ConclaveError} `recording_not_found`
   */
  async recordingLink(egressId: string, options: LinkOptions = {}): Promise<string> {
    const { expiresInSeconds = 3600, ...others } = options;
    const parameters = { path: { egress_id: egressId }, query: { expires_in_seconds: expiresInSeconds } };
    const link = await this.call<{ path: string }>("GET /files/recordings/{egress_id}/link", parameters, others);
    // Anything else would change the host.
    if (!link.path.startsWith("/")) {
      throw new ConclaveError("unknown", "the response has no path of this server", { status: 200 });
    }
    return this.#url + link.path;
  }

  /**
   * Sends the request of an operation, and returns its result.
   *
   * @param operation Its method and the template of its path.
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

/** Returns the query of a URL, without parameters that have no value. */
function queryOf(parameters: object = {}): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length === 0 ? "" : `?${query}`;
}
