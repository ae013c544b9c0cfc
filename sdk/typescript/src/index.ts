// Server-side client of Conclave, with a typed method for each API operation and the verification of webhooks.
export type { CallOptions, ConclaveOptions, LinkOptions } from "./client.js";
export { ConclaveError, type ErrorCode } from "./errors.js";
export { Conclave, type Extensions } from "./generated/conclave.gen.js";
export type * from "./generated/types.gen.js";
export type { RetryPolicy } from "./retry.js";
export * as webhooks from "./webhooks.js";
