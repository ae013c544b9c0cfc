// The page has the client SDK already.
export const { getLogger } = globalThis.LivekitClient;
