// Environment variables for omitted options.
import { ConclaveError, type ErrorCode } from "./errors.js";

type Environment = Record<string, string | undefined>;

/** Returns the given URL and key, or else the values of `CONCLAVE_URL` and `CONCLAVE_KEY`. */
export function fromEnvironment(url: string | undefined, apiKey: string | undefined): [url: string, apiKey: string] {
  return [
    url ?? variable("CONCLAVE_URL", "invalid_url", "URL"),
    apiKey ?? variable("CONCLAVE_KEY", "invalid_key", "API key"),
  ];
}

function variable(name: string, code: ErrorCode, what: string): string {
  // Not every runtime has `process`.
  const { process } = globalThis as { process?: { env?: Environment } };
  const value = process?.env?.[name];
  if (!value) {
    throw new ConclaveError(code, `no ${what} is given, and ${name} is not set`);
  }
  return value;
}
