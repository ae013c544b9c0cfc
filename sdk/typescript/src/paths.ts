// Path parameters.
import { ConclaveError } from "./errors.js";

/**
 * Returns a call's path. Rejects a parameter that is missing, empty, `.` or `..`. HTTP clients and proxies resolve such a segment to
 * the same or the parent folder, so that a request for one participant would reach its room.
 *
 * @throws ConclaveError with the parameter's name as its field.
 */
export function pathOf(template: string, parameters: Record<string, unknown>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = parameters[name];
    if (typeof value !== "string" && typeof value !== "number") {
      throw refused(name, "must be a string");
    }
    const escaped = encoded(name, String(value));
    // `%2e` is a dot to a client; here it is an escaped percent sign, so it remains text.
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
