// Parameters in the path of a URL.
import { ConclaveError } from "./errors.js";

/**
 * Returns the path of a call. Refuses a parameter that is missing, empty, `.` or `..`. Clients of HTTP, and servers in between, take
 * such a segment for the same folder or the one above, so that a request for one participant would reach its room.
 *
 * @throws ConclaveError with the name of the parameter as its field.
 */
export function pathOf(template: string, parameters: Record<string, unknown>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = parameters[name];
    if (typeof value !== "string" && typeof value !== "number") {
      throw refused(name, "must be a string");
    }
    const escaped = encoded(name, String(value));
    // `%2e` is a dot to a client; here it is an escaped percent sign, so it stays text.
    if (["", ".", ".."].includes(escaped.toLowerCase().replaceAll("%2e", "."))) {
      throw refused(name, "must not be empty, `.` or `..`, which are not names in a URL");
    }
    return escaped;
  });
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
