// The client of Conclave for servers: every operation of its API, and the verification of its webhooks.
export { Conclave, type ConclaveOptions } from "./client.js";
export { ConclaveError } from "./errors.js";
export type * from "./generated/types.gen.js";
export type { RetryPolicy } from "./retry.js";
export * as webhooks from "./webhooks.js";
