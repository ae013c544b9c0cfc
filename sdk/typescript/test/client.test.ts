// Requests, retries and errors of the client, with a function as the server.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { inspect } from "node:util";
import { Conclave, ConclaveError, type ConclaveOptions } from "../src/index.js";
import { isRepeatable, takesIdempotencyKey, waitAfterFailure, waitAfterResponse } from "../src/retry.js";

const file = process.env.OPENAPI;
assert.ok(file, "OPENAPI is the path of tests/data/openapi.json");
const description = JSON.parse(readFileSync(file, "utf8"));

const room = {
  id: "0191d2c4-7a54-7cc1-8b59-3f1c5a0e9d21",
  project_id: "prj_5f2a9c01be34",
  name: "standup",
  namespaced_name: "prj_5f2a9c01be34.standup",
  max_participants: 0,
  empty_timeout_seconds: 300,
  status: "open",
  created_at: "2026-01-31T12:00:00.000Z",
};
const created = () => Response.json(room, { status: 201 });
const refused = () =>
  Response.json(
    { error: { code: "rate_limited", message: "over the request rate" } },
    { status: 429, headers: { "Retry-After": "0", "X-Request-Id": "req-1" } },
  );
const unavailable = (after: string) =>
  Response.json(
    { error: { code: "media_unavailable", message: "the media plane does not answer" } },
    { status: 503, headers: { "Retry-After": after } },
  );
const ofProxy = (status: number) =>
  new Response("<h1>Bad Gateway</h1>", { status, headers: { "Content-Type": "text/html" } });
const broken = () => {
  throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
};
/** A response that ends in the middle of its body. */
const cut = () =>
  new Response(new ReadableStream({ start: (controller) => controller.error(new TypeError("terminated")) }));

/** A client whose server sends the answers in order, and the recorded requests. */
function client(answers: Array<() => Response>, options: Partial<ConclaveOptions> = {}) {
  const requests: Request[] = [];
  const fetch = async (request: Request | string | URL) => {
    requests.push(request as Request);
    const answer = answers.shift();
    assert.ok(answer, "a request too many");
    return answer();
  };
  const conclave = new Conclave({ url: "http://conclave.test/", apiKey: "vk_test_key", fetch, ...options });
  const keys = () => new Set(requests.map((request) => request.headers.get("Idempotency-Key")));
  return { conclave, requests, keys };
}

async function failure(call: Promise<unknown>): Promise<ConclaveError> {
  const error = await call.then(
    () => assert.fail("not refused"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof ConclaveError, String(error));
  return error;
}

describe("a call", () => {
  test("has the key of the project and one of its own", async () => {
    const { conclave, requests, keys } = client([created, created]);
    assert.equal((await conclave.createRoom({ name: "standup" })).name, "standup");
    await conclave.createRoom({ name: "standup" });
    assert.equal(requests[0].url, "http://conclave.test/v1/rooms");
    assert.equal(requests[0].headers.get("Authorization"), "Bearer vk_test_key");
    assert.deepEqual(await requests[0].json(), { name: "standup" });
    assert.equal(keys().size, 2);
  });

  test("keeps a given key", async () => {
    const { conclave, keys } = client([refused, created]);
    await conclave.createRoom({ name: "standup" }, { idempotencyKey: "order-7" });
    assert.deepEqual([...keys()], ["order-7"]);
  });

  const failures = {
    "a 429": refused,
    "a 503": () => unavailable("0"),
    "a proxy's 502": () => ofProxy(502),
    "a proxy's 504": () => ofProxy(504),
    broken,
    cut,
  };
  for (const [name, answer] of Object.entries(failures)) {
    test(`is repeated with the same key after ${name}`, async () => {
      const { conclave, requests, keys } = client([answer, answer, created]);
      assert.equal((await conclave.createRoom({ name: "standup" })).name, "standup");
      assert.deepEqual(await requests[2].json(), { name: "standup" });
      assert.equal(requests.length, 3);
      assert.equal(keys().size, 1);
      assert.ok(!keys().has(null));
    });
  }

  test("without a key is sent once", async () => {
    const calls = [
      (conclave: Conclave) =>
        conclave.createIngress(
          "standup",
          { input_type: "whip", participant_identity: "encoder" },
          { idempotencyKey: "order-7" },
        ),
      (conclave: Conclave) => conclave.exchangeCode("abcd-efgh-ijkm"),
      (conclave: Conclave) => conclave.updateTemplate("tpl_9b1d3e5f7a20", { name: "other" }),
    ];
    for (const call of calls) {
      const { conclave, requests, keys } = client([() => unavailable("0"), created]);
      assert.equal((await failure(call(conclave))).code, "media_unavailable");
      assert.deepEqual([requests.length, [...keys()]], [1, [null]]);
    }
  });

  test("ends at once when its caller gives up", async () => {
    const { conclave, requests } = client([() => unavailable("20")]);
    const given = AbortSignal.timeout(50);
    await assert.rejects(conclave.listRooms({}, { signal: given }), { name: "TimeoutError" });
    assert.equal(requests.length, 1);
  });

  test("has options of its own", async () => {
    const { conclave, requests } = client([() => unavailable("0")]);
    const options = { headers: { Traceparent: "00-1" }, retry: { maxRetries: 0 } };
    assert.equal((await failure(conclave.getRoom("standup", options))).code, "media_unavailable");
    assert.equal(requests[0].headers.get("Traceparent"), "00-1");
  });

  test("has a time limit of its own", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const conclave = new Conclave({ url, apiKey: "vk_test_key" });
    const error = await failure(conclave.getPlan({ timeout: 0.05, retry: { maxRetries: 0 } }));
    assert.deepEqual([error.code, (error.cause as Error).name], ["connection_failed", "TimeoutError"]);
    silent.close();
    silent.closeAllConnections();
  });

  test("has the parameters of its query that have a value", async () => {
    const { conclave, requests } = client([refused], { retry: { maxRetries: 0 } });
    const query = { room: "a b", active: false, limit: 0, role: undefined, after: "2026-01-31T12:00:00+01:00" };
    await failure(conclave.listSessions(query));
    const sent = new URL(requests[0].url).searchParams;
    assert.deepEqual(Object.fromEntries(sent), { room: "a b", active: "false", limit: "0", after: query.after });
  });

  test("escapes what is part of its path", async () => {
    const { conclave, requests } = client([() => new Response(null, { status: 204 })]);
    await conclave.removeParticipant("standup", "a/b?c");
    assert.equal(requests[0].url, "http://conclave.test/v1/rooms/standup/participants/a%2Fb%3Fc");
  });
});

test("a link to a file is at the address of the server", async () => {
  const path = "/files/recordings/EG_1?project=prj_1&expires=2&signature=3";
  const { conclave, requests } = client([
    refused,
    () => Response.json({ path, expires_at: "2026-01-31T12:00:00.000Z" }),
  ]);
  assert.equal(await conclave.recordingLink("EG/1", { expiresInSeconds: 60 }), `http://conclave.test${path}`);
  assert.equal(requests[1].url, "http://conclave.test/files/recordings/EG%2F1/link?expires_in_seconds=60");
  assert.equal(requests[1].headers.get("Authorization"), "Bearer vk_test_key");
});

test("the key of the project is not printed", () => {
  assert.doesNotMatch(inspect(client([]).conclave, { depth: 9, showHidden: true }), /vk_test_key/);
});

test("operations and keys are those of the description", () => {
  const paths: [string, Record<string, { operationId: string; parameters?: { name: string }[] }>][] = Object.entries(
    description.paths,
  );
  const operations = paths.flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  assert.equal(operations.length, 54);
  const extensions: Record<string, Record<string, { parameters?: { name: string }[] }>> = JSON.parse(
    readFileSync(file.replace(/openapi\.json$/, "openapi-ext.json"), "utf8"),
  ).paths;
  for (const [path, item] of Object.entries(extensions)) {
    for (const [method, { parameters = [] }] of Object.entries(item)) {
      const takesKey = parameters.some(({ name }) => name === "Idempotency-Key");
      assert.equal(takesIdempotencyKey(method.toUpperCase(), path.replace(/\{\w+\}/g, "x")), takesKey, path);
    }
  }
  const methods = Conclave.prototype as unknown as Record<string, unknown>;
  for (const { path, method, operation } of operations) {
    const names = (operation.parameters ?? []).map((parameter) => parameter.name);
    const plain = path.replace(/\{\w+\}/g, "x");
    assert.equal(takesIdempotencyKey(method, plain), names.includes("Idempotency-Key"), path);
    const name = operation.operationId.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    assert.equal(typeof methods[name], "function", name);
    if (names.includes("offset")) {
      const all = name.replace(/^list/, "all");
      assert.equal(typeof methods[all], "function", all);
    }
  }
});

describe("an error", () => {
  test("says what the server says", async () => {
    const body = { error: { code: "invalid_room_name", message: "must be 1 to 128 characters", field: "name" } };
    const answer = () => Response.json(body, { status: 400, headers: { "X-Request-Id": "req-2" } });
    const error = await failure(client([answer]).conclave.createRoom({ name: "/" }));
    assert.deepEqual([error.status, error.code, error.field], [400, "invalid_room_name", "name"]);
    assert.deepEqual([error.requestId, error.retryAfter], ["req-2", undefined]);
    assert.equal(error.message, "invalid_room_name: must be 1 to 128 characters");
  });

  test("is the last refusal", async () => {
    const { conclave, requests } = client([refused, refused, refused], { retry: { maxRetries: 2 } });
    const error = await failure(conclave.getRoom("standup"));
    assert.deepEqual([error.code, error.requestId, error.retryAfter], ["rate_limited", "req-1", 0]);
    assert.equal(requests.length, 3);
  });

  test("says how long to wait, if that is long", async () => {
    const error = await failure(client([() => unavailable("3600")]).conclave.listRooms());
    assert.equal(error.retryAfter, 3600);
  });

  test("is thrown for a broken connection too", async () => {
    const error = await failure(client([broken], { retry: { maxRetries: 0 } }).conclave.listRooms());
    assert.deepEqual([error.code, error.status], ["connection_failed", undefined]);
    assert.match(error.message, /ECONNREFUSED/);
    assert.ok(error.cause instanceof TypeError);
  });

  test("is thrown for the answer of a proxy too", async () => {
    for (const text of ["<h1>Bad Gateway</h1>", "{}", '{"error":{"code":7,"message":"no"}}']) {
      const { conclave } = client([() => new Response(text, { status: 502 })], { retry: { maxRetries: 0 } });
      const error = await failure(conclave.listRooms());
      assert.deepEqual([error.code, error.status], ["unknown", 502]);
    }
  });
});

test("waits grow and differ", () => {
  const request = new Request("http://conclave.test/v1/rooms");
  assert.ok(isRepeatable(request));
  const cases = [
    [0, 0.25],
    [1, 0.5],
    [2, 1],
    [9, 8],
  ];
  for (const [attempt, longest] of cases) {
    const waits = Array.from({ length: 50 }, () => waitAfterFailure({ maxRetries: 10 }, request, attempt) ?? 0);
    assert.ok(longest / 2 <= Math.min(...waits) && Math.max(...waits) <= longest, String(waits));
    assert.ok(new Set(waits).size > 1);
  }
  assert.equal(waitAfterFailure({ maxRetries: 10 }, request, 10), undefined);
  assert.equal(waitAfterResponse({}, request, 0, unavailable("7")), 7);
});

test("an iterator goes through all pages", async () => {
  const fetch = async (request: Request | string | URL) => {
    const { searchParams } = new URL((request as Request).url);
    const [limit, offset] = [Number(searchParams.get("limit")), Number(searchParams.get("offset"))];
    const rooms = Array.from({ length: 7 }, (_, number) => ({ ...room, name: `room-${number}` }));
    return Response.json({ rooms: rooms.slice(offset, offset + limit), limit, offset, has_more: offset + limit < 7 });
  };
  const conclave = new Conclave({ url: "http://conclave.test", apiKey: "key", fetch });
  const names = async (query: { limit: number; offset?: number }) => {
    const found: string[] = [];
    for await (const { name } of conclave.allRooms(query)) {
      found.push(name);
    }
    return found;
  };
  const all = Array.from({ length: 7 }, (_, number) => `room-${number}`);
  assert.deepEqual(await names({ limit: 3 }), all);
  assert.deepEqual(await names({ limit: 3, offset: 5 }), all.slice(5));
});
