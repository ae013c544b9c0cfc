// Parameters in the path of a URL.
import { ConclaveError } from "./errors.js";

/** The part of a call that its path is made of. */
interface Call {
  url: string;
  path?: Record<string, unknown>;
}

/**
 * Refuses a call with a path parameter that is missing, empty, `.` or `..`. Clients of HTTP, and servers in between, take such a
 * segment for the same folder or the one above, so that a request for one participant would reach its room.
 *
 * @throws ConclaveError with the name of the parameter as its field.
 */
export async function checkPath(call: unknown): Promise<void> {
  const { url, path = {} } = call as Call;
  for (const [, name] of url.matchAll(/\{(\w+)\}/g)) {
    const value = path[name];
    if (typeof value !== "string" && typeof value !== "number") {
      throw refused(name, "must be a string");
    }
    const escaped = encoded(name, String(value));
    // `%2e` is a dot to a client; here it is an escaped percent sign, so it stays text.
    if (["", ".", ".."].includes(escaped.toLowerCase().replaceAll("%2e", "."))) {
      throw refused(name, "must not be empty, `.` or `..`, which are not names in a URL");
    }
  }
}

function encoded(name: string, value: string): string {
  try {
    return encodeURIComponent(value);
  } catch {
    throw refused(name, "must be valid Unicode");
  }
}

function refused(name: string, message: string): ConclaveError {
  return new ConclaveError("invalid_parameter", `${name} ${message}`, { field: name });
}
