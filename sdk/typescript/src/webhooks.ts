// Verifies webhook deliveries, and receives them in Fetch, Node and Express applications. Uses WebCrypto, which all runtimes have.
import { EVENTS } from "./generated/events.gen.js";
import type { WebhookEvent } from "./generated/types.gen.js";

/** The largest accepted age of a delivery, or lead over this machine's clock, in seconds. */
export const TOLERANCE = 300;
const LARGEST_BODY = 1024 * 1024;

/** Reason for rejecting a delivery. `unknown_event` is a signed event of a newer server than this package. */
export type WebhookRefusal = "unsigned" | "wrong_signature" | "outside_tolerance" | "malformed" | "unknown_event";

/** A delivery that is not trusted or not understood. */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
  readonly reason: WebhookRefusal;

  constructor(reason: WebhookRefusal, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Request headers, as in Fetch and Node. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

export interface VerifyOptions {
  /** Largest accepted age in seconds; 300 by default, null for any age. */
  tolerance?: number | null | undefined;
  /** Current time in Unix seconds; by default the clock's. */
  now?: number | undefined;
}

/**
 * Returns a delivery's event, if the server that knows the endpoint's `secret` has sent this exact body.
 *
 * Each signature in the delivery must be correct. Only the Standard Webhooks signature covers a time, so it is required unless
 * `tolerance` is null.
 *
 * @throws WebhookError if the delivery is unsigned, altered, too old, or not an event.
 */
export async function verify(
  body: Uint8Array | string,
  headers: WebhookHeaders,
  secret: string,
  { tolerance = TOLERANCE, now = Date.now() / 1000 }: VerifyOptions = {},
): Promise<WebhookEvent> {
  const raw = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const sent = headers instanceof Headers ? headers : lowerCase(headers);
  const standard = await standardSignature(sent, raw, secret);
  const svc = await svcSignature(sent, raw, secret);
  if ((standard ?? svc) === undefined || (tolerance !== null && standard === undefined)) {
    throw new WebhookError("unsigned", "a signature is missing");
  }
  if (standard === false || svc === false) {
    throw new WebhookError("wrong_signature", "the signature is not that of this body and this secret");
  }
  // The signature was verified, so the server wrote this header.
  if (tolerance !== null && !(Math.abs(now - Number(sent.get("webhook-timestamp"))) <= tolerance)) {
    throw new WebhookError("outside_tolerance", "the delivery is too old, or this machine's clock is wrong");
  }
  return parse(raw);
}

/**
 * Returns the event in a body without verification: for bodies from a delivery log or your own queue.
 *
 * @throws WebhookError if the body is not an event.
 */
export function parse(body: Uint8Array | string): WebhookEvent {
  let event: WebhookEvent;
  try {
    event = JSON.parse(typeof body === "string" ? body : new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new WebhookError("malformed", "the body is no event");
  }
  if (typeof event?.type !== "string") {
    throw new WebhookError("malformed", "the body is no event");
  }
  // Before the fields are checked: unknown events may have other fields.
  if (!Object.hasOwn(EVENTS, event.type)) {
    throw new WebhookError("unknown_event", `there is no event ${event.type}`);
  }
  if (!hasContext(event)) {
    throw new WebhookError("malformed", "the body is no event");
  }
  return event;
}

/** Returns whether an event has the fields of every event; `room` only if it is about a room. */
function hasContext({ type, project_id, room, occurred_at }: WebhookEvent): boolean {
  const context = [project_id, occurred_at, ...(EVENTS[type] ? [room] : [])];
  return context.every((field) => typeof field === "string");
}

function lowerCase(headers: Record<string, string | string[] | undefined>): Map<string, string> {
  const pairs = Object.entries(headers).filter(([, value]) => value !== undefined);
  return new Map(pairs.map(([name, value]) => [name.toLowerCase(), String(value)]));
}

type Sent = Headers | Map<string, string>;

/** Returns whether the Standard Webhooks signature is correct; undefined if there is none. */
async function standardSignature(sent: Sent, body: Uint8Array, secret: string): Promise<boolean | undefined> {
  const given = sent.get("webhook-signature");
  if (given === null || given === undefined) {
    return undefined;
  }
  const head = new TextEncoder().encode(`${sent.get("webhook-id") ?? ""}.${sent.get("webhook-timestamp") ?? ""}.`);
  const signed = new Uint8Array([...head, ...body]);
  // There may be several, separated by spaces.
  const signatures = given.split(" ").filter((text) => text.startsWith("v1,"));
  const key = standardKey(secret);
  const right = await Promise.all(signatures.map((text) => isSignature(key, base64(text.slice(3)), signed)));
  return right.includes(true);
}

/** Returns whether the signature of the body alone is correct; undefined if there is none. */
async function svcSignature(sent: Sent, body: Uint8Array, secret: string): Promise<boolean | undefined> {
  const given = sent.get("x-svc-signature");
  if (given === null || given === undefined) {
    return undefined;
  }
  const key = new TextEncoder().encode(secret);
  // After a rotation, the first is by the previous secret, and the second by the new one.
  const signatures = [given, sent.get("x-svc-signature-next") ?? ""];
  const right = await Promise.all(signatures.map((text) => isSignature(key, svcDigest(text), body)));
  return right.includes(true);
}

function svcDigest(text: string): Uint8Array | undefined {
  const hex = /^sha256=([0-9a-f]{64})$/.exec(text)?.[1];
  return hex === undefined ? undefined : Uint8Array.from(hex.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

/** Compares in constant time. */
async function isSignature(key: Uint8Array, given: Uint8Array | undefined, signed: Uint8Array): Promise<boolean> {
  if (given === undefined) {
    return false;
  }
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key as BufferSource, algorithm, false, ["verify"]);
  return crypto.subtle.verify("HMAC", imported, given as BufferSource, signed as BufferSource);
}

/** Returns the bytes after `whsec_`; for a secret in another format, the key is its text. */
function standardKey(secret: string): Uint8Array {
  const decoded = secret.startsWith("whsec_") ? base64(secret.slice("whsec_".length)) : undefined;
  return decoded ?? new TextEncoder().encode(secret);
}

function base64(text: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** Handles an event. The delivery's id is the same for each attempt. */
export type EventHandler = (event: WebhookEvent, deliveryId: string) => unknown;

/**
 * Returns a function that responds to a Fetch request: for Hono, Next.js, Deno, Bun and Workers.
 *
 * It accepts a delivery once `handle` is done. If `handle` throws, so does the function: the delivery fails, and the server sends it again.
 */
export function fetchReceiver(
  secret: string,
  handle: EventHandler,
  options?: VerifyOptions,
): (request: Request) => Promise<Response> {
  return async (request) => {
    if (request.method !== "POST") {
      return new Response(null, { status: 405 });
    }
    const body = request.body === null ? new Uint8Array() : await read(request.body);
    return new Response(null, { status: await deliver(body, request.headers, secret, handle, options) });
  };
}

/** The part of Node's `IncomingMessage` that a receiver reads. */
export interface NodeRequest extends AsyncIterable<Uint8Array> {
  method?: string | undefined;
  headers: Record<string, string | string[] | undefined>;
  /** Result of a body parser: with `express.raw`, the raw body. */
  body?: unknown;
}

/** The part of Node's `ServerResponse` that a receiver writes. */
export interface NodeResponse {
  statusCode: number;
  end(): unknown;
}

/**
 * Returns a handler for Express and for `http.createServer`. It needs the raw body: no parser, such as `express.json`, may read the
 * request first. If `handle` throws, the handler calls `onError` and responds with 500; then the server sends the delivery again.
 */
export function nodeReceiver(
  secret: string,
  handle: EventHandler,
  options: VerifyOptions & { onError?: ((error: unknown) => void) | undefined } = {},
): (request: NodeRequest, response: NodeResponse) => Promise<void> {
  const { onError = console.error } = options;
  return async (request, response) => {
    try {
      response.statusCode = request.method === "POST" ? await answer(request) : 405;
    } catch (error) {
      response.statusCode = 500;
      onError(error);
    }
    response.end();
  };

  async function answer(request: NodeRequest): Promise<number> {
    if (request.body !== undefined && !(request.body instanceof Uint8Array)) {
      throw new TypeError("a parser has read the body: register the receiver of webhooks before express.json()");
    }
    const body = request.body ?? (await read(request));
    return deliver(body, request.headers, secret, handle, options);
  }
}

/** Verifies and handles a delivery; returns the response status. */
async function deliver(
  body: Uint8Array | undefined,
  headers: WebhookHeaders,
  secret: string,
  handle: EventHandler,
  options?: VerifyOptions,
): Promise<number> {
  if (body === undefined) {
    return 413;
  }
  let event: WebhookEvent;
  try {
    event = await verify(body, headers, secret, options);
  } catch (error) {
    return statusOf(error);
  }
  const id = headers instanceof Headers ? headers.get("webhook-id") : headers["webhook-id"];
  await handle(event, String(id ?? ""));
  return 204;
}

/**
 * Returns the response status for a delivery that `verify` has rejected. Unknown events are accepted: the server would send them
 * again, to no avail. Rethrows anything except a `WebhookError`.
 */
export function statusOf(error: unknown): number {
  if (!(error instanceof WebhookError)) {
    throw error;
  }
  const statuses: Partial<Record<WebhookRefusal, number>> = { unknown_event: 204, malformed: 400 };
  return statuses[error.reason] ?? 401;
}

/** Returns a body, or undefined if it is larger than any event. */
async function read(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of chunks) {
    parts.push(part);
    length += part.length;
    if (length > LARGEST_BODY) {
      return undefined;
    }
  }
  const body = new Uint8Array(length);
  let offset = 0;
  for (const part of parts) {
    body.set(part, offset);
    offset += part.length;
  }
  return body;
}
