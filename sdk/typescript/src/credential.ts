// The API key, and what keeps it out of messages.
import { ConclaveError } from "./errors.js";

// A shorter text is no key of a server, and occurs in messages by chance.
const SHORTEST_HIDDEN = 8;
const VISIBLE_ASCII = /^[!-~]+$/;

/** An API key without the white space around it, as after reading it from a file. */
export class Credential {
  readonly #key: string;

  constructor(apiKey: string) {
    const key = String(apiKey ?? "").trim();
    // Whatever else a header cannot carry, the runtime would print.
    if (!VISIBLE_ASCII.test(key)) {
      throw new ConclaveError("invalid_key", "the API key must be visible ASCII characters without spaces");
    }
    this.#key = key;
  }

  get header(): string {
    return `Bearer ${this.#key}`;
  }

  /** Returns a text without the key, which something in between may have sent back. */
  hide(text: string): string {
    return this.#key.length >= SHORTEST_HIDDEN ? text.replaceAll(this.#key, "***") : text;
  }
}

/**
 * Returns the URL of a server without the white space around it, and without slashes at its end.
 *
 * @throws ConclaveError if it is none. The message does not have it: it may be a key, given in the wrong place.
 */
export function baseUrlOf(url: string): string {
  const trimmed = String(url ?? "").trim();
  if (!/^https?:\/\//i.test(trimmed) || !VISIBLE_ASCII.test(trimmed)) {
    throw new ConclaveError("invalid_url", "the URL of the server must begin with http:// or https://");
  }
  return trimmed.replace(/\/+$/, "");
}
