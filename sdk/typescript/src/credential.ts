// The API key, masked in messages.
import { ConclaveError } from "./errors.js";

// Shorter texts are not server keys, and occur in messages by chance.
const SHORTEST_HIDDEN = 8;
const VISIBLE_ASCII = /^[!-~]+$/;

/** An API key, trimmed, since keys read from a file end with a line break. */
export class Credential {
  readonly #key: string;

  constructor(apiKey: string) {
    const key = String(apiKey ?? "").trim();
    // The runtime's error would print a key that a header cannot carry.
    if (!VISIBLE_ASCII.test(key)) {
      throw new ConclaveError("invalid_key", "the API key must be visible ASCII characters without spaces");
    }
    this.#key = key;
  }

  get header(): string {
    return `Bearer ${this.#key}`;
  }

  /** Masks the key in a text: a proxy may echo it. */
  hide(text: string): string {
    return this.#key.length >= SHORTEST_HIDDEN ? text.replaceAll(this.#key, "***") : text;
  }
}

/**
 * Returns a server's URL without surrounding white space and trailing slashes.
 *
 * @throws ConclaveError if it is not a URL. The message omits the text, which may be a key in the wrong place.
 */
export function baseUrlOf(url: string): string {
  const trimmed = String(url ?? "").trim();
  if (!/^https?:\/\//i.test(trimmed) || !VISIBLE_ASCII.test(trimmed)) {
    throw new ConclaveError("invalid_url", "the URL of the server must begin with http:// or https://");
  }
  return trimmed.replace(/\/+$/, "");
}
