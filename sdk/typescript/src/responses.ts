// Distinguishes an operation's declared response from any other, such as a redirect or a proxy's page.
import type { Credential } from "./credential.js";
import { unexpected } from "./errors.js";
import { OBJECTS, RESPONSES } from "./generated/responses.gen.js";

/**
 * Returns the JSON of a response below 400, with its entire body in `body`, if the status and the JSON match the operation's
 * declaration; undefined if it declares no JSON.
 *
 * @param operation its method and path template.
 * @throws ConclaveError for any other response.
 */
export function resultOf(operation: string, response: Response, body: ArrayBuffer, credential: Credential): unknown {
  const { status } = response;
  const { statuses, type } = RESPONSES[operation] ?? { statuses: [200], type: "any" };
  const wrong = (problem: string) => unexpected(response, body, credential, problem);
  if (response.redirected) {
    throw wrong("a redirect was followed");
  }
  if (!statuses.includes(status)) {
    throw wrong(`the response has the status ${status}, not ${statuses.join(" or ")}`);
  }
  if (type === undefined) {
    return undefined;
  }
  const result = parsed(body);
  if (!fits(result, type)) {
    throw wrong("the response is not the JSON that the API describes");
  }
  return result;
}

const NO_JSON = Symbol("no JSON");

function parsed(body: ArrayBuffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    return NO_JSON;
  }
}

const isTime = (value: unknown) => typeof value === "string" && !Number.isNaN(Date.parse(value));
const KINDS: Record<string, (value: unknown) => boolean> = {
  any: (value) => value !== NO_JSON,
  null: (value) => value === null,
  string: (value) => typeof value === "string",
  boolean: (value) => typeof value === "boolean",
  number: (value) => typeof value === "number",
  integer: Number.isInteger,
  object: isObject,
  timestamp: isTime,
  date: isTime,
};

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns whether a value has a type of the table, whose notation sdk/responses.py explains. */
function fits(value: unknown, type: string): boolean {
  return type.split("|").some((kind) => fitsOne(value, kind));
}

function fitsOne(value: unknown, kind: string): boolean {
  const inner = kind.slice(0, -2);
  if (kind.endsWith("[]")) {
    return Array.isArray(value) && value.every((item) => fits(item, inner));
  }
  if (kind.endsWith("{}")) {
    return isObject(value) && Object.values(value).every((item) => fits(item, inner));
  }
  return KINDS[kind]?.(value) ?? (isObject(value) && hasFields(value, OBJECTS[kind]));
}

function hasFields(value: Record<string, unknown>, fields: Record<string, string>): boolean {
  return Object.entries(fields).every(([field, kind]) => {
    const name = field.replace(/\?$/, "");
    return Object.hasOwn(value, name) ? fits(value[name], kind) : name !== field;
  });
}
