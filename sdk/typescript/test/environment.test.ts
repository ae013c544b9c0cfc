// A client without options, with its server and key in the environment.
import assert from "node:assert/strict";
import { afterEach, describe, test } from "node:test";
import { Conclave, ConclaveError } from "../src/index.js";

const url = "http://conclave.test";
const key = "vk_test_of_the_environment";

function set(values: { CONCLAVE_URL?: string | undefined; CONCLAVE_KEY?: string | undefined }): void {
  for (const name of ["CONCLAVE_URL", "CONCLAVE_KEY"] as const) {
    delete process.env[name];
    if (values[name] !== undefined) {
      process.env[name] = values[name];
    }
  }
}

/** Returns a request's URL and credential. */
async function sent(options: { url?: string; apiKey?: string } = {}): Promise<[string, string | null]> {
  const requests: Request[] = [];
  const fetch = async (request: Request | string | URL) => {
    requests.push(request as Request);
    return Response.json({ error: { code: "unauthorized", message: "no" } }, { status: 401 });
  };
  await assert.rejects(new Conclave({ ...options, fetch }).getPlan());
  return [requests[0].url, requests[0].headers.get("Authorization")];
}

function refusal(make: () => Conclave): ConclaveError {
  try {
    make();
  } catch (error) {
    assert.ok(error instanceof ConclaveError, String(error));
    return error;
  }
  return assert.fail("not refused");
}

describe("a client without options", () => {
  afterEach(() => set({}));

  test("reads the environment", async () => {
    set({ CONCLAVE_URL: url, CONCLAVE_KEY: key });
    assert.deepEqual(await sent(), [`${url}/v1/plan`, `Bearer ${key}`]);
    assert.deepEqual(await sent({ apiKey: "vk_test_given" }), [`${url}/v1/plan`, "Bearer vk_test_given"]);
    const given = { url: "http://other.test", apiKey: "vk_test_given" };
    assert.deepEqual(await sent(given), ["http://other.test/v1/plan", "Bearer vk_test_given"]);
    new Conclave();
  });

  for (const unset of [undefined, ""]) {
    test(`names a variable that is ${unset === undefined ? "missing" : "empty"}`, () => {
      set({ CONCLAVE_URL: unset, CONCLAVE_KEY: key });
      const withoutUrl = refusal(() => new Conclave());
      assert.equal(withoutUrl.code, "invalid_url");
      assert.ok(withoutUrl.message.includes("CONCLAVE_URL is not set") && !withoutUrl.message.includes(key));
      set({ CONCLAVE_URL: url, CONCLAVE_KEY: unset });
      const withoutKey = refusal(() => new Conclave());
      assert.equal(withoutKey.code, "invalid_key");
      assert.ok(withoutKey.message.includes("CONCLAVE_KEY is not set"));
    });
  }
});
