// For every operation: the parameters that it rejects, and the responses that it accepts.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { inspect } from "node:util";
import { Conclave, ConclaveError } from "../src/index.js";

interface Operation {
  method: string;
  path: string;
  path_parameters: string[];
  is_list: boolean;
  statuses: number[];
  today?: Record<string, unknown>;
  newer?: Record<string, unknown>;
  required?: string[];
}

const file = process.env.OPERATIONS;
assert.ok(file, "OPERATIONS is the path of sdk/operations.json");
const operations: Record<string, Operation> = JSON.parse(readFileSync(file, "utf8"));
operations.recording_link = {
  method: "GET",
  path: "/files/recordings/{egress_id}/link",
  path_parameters: ["egress_id"],
  is_list: false,
  statuses: [200],
  today: { path: "/files/recordings/EG_1" },
  newer: { path: "/files/recordings/EG_1", later: true },
  required: ["path"],
};
const KEY = "vk_test_of_operations";

type Answer = () => Response;

/** A client whose server always sends the same answer, and the recorded requests. */
function client(answer: Answer) {
  const requests: Request[] = [];
  const fetch = async (request: Request | string | URL) => {
    requests.push(request as Request);
    return answer();
  };
  return {
    conclave: new Conclave({ url: "http://conclave.test", apiKey: KEY, fetch, retry: { maxRetries: 0 } }),
    requests,
  };
}

/** An operation's methods: a list also has an iterator. Each one calls the client and exhausts the iterator. */
function methods(name: string): Array<(conclave: Conclave, values: unknown[]) => Promise<unknown>> {
  const { is_list, path } = operations[name];
  const method = name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  if (name === "recording_link") {
    return [(conclave, [id]) => conclave.recordingLink(id as string)];
  }
  // A body, a query, or the call's options follow.
  const given = (values: unknown[]) => [...values, {}];
  type Callable = Record<string, (...given: unknown[]) => unknown>;
  const of = (conclave: Conclave) => (path.startsWith("/ext/") ? conclave.ext : conclave) as unknown as Callable;
  const call = async (conclave: Conclave, values: unknown[]) => of(conclave)[method](...given(values));
  const all = async (conclave: Conclave, values: unknown[]) => {
    const found: unknown[] = [];
    const iterator = of(conclave)[method.replace(/^list/, "all")](...given(values));
    for await (const item of iterator as AsyncIterable<unknown>) {
      found.push(item);
    }
    return found;
  };
  return is_list ? [call, all] : [call];
}

async function failure(call: Promise<unknown>): Promise<ConclaveError> {
  const error = await call.then(
    (result) => assert.fail(`not refused: ${inspect(result)}`),
    (error: unknown) => error,
  );
  assert.ok(error instanceof ConclaveError, String(error));
  return error;
}

/** Returns a copy with one item replaced. */
const replaced = (items: unknown[], at: number, item: unknown) =>
  items.map((one, number) => (number === at ? item : one));
const plain = (name: string): unknown[] => operations[name].path_parameters.map(() => "x");
const bodyOf = (value: unknown) => (value === undefined ? null : JSON.stringify(value));
const nothing = () => assert.fail("sent");
const teapot = () => new Response(null, { status: 418 });

describe("a path parameter", () => {
  for (const [name, { path_parameters }] of Object.entries(operations)) {
    for (const [number, parameter] of path_parameters.entries()) {
      test(`that is no name in a URL is not sent: ${parameter} of ${name}`, async () => {
        for (const call of methods(name)) {
          for (const value of [".", "..", "", undefined, null, ["."], "\ud800"]) {
            const { conclave, requests } = client(nothing);
            const error = await failure(call(conclave, replaced(plain(name), number, value)));
            assert.deepEqual([error.code, error.field], ["invalid_parameter", parameter]);
            assert.deepEqual([error.status, requests], [undefined, []]);
          }
        }
      });

      test(`with other dots arrives as it is: ${parameter} of ${name}`, async () => {
        for (const value of ["%2e", "%2E%2e", ".%2e", "...", ".a", "a/..", "../", "%", "ü", "{name}", " "]) {
          const { conclave, requests } = client(teapot);
          const values = replaced(plain(name), number, value);
          await failure(methods(name)[0](conclave, values));
          const segments = path_parameters.map((one, at) => [`{${one}}`, encodeURIComponent(String(values[at]))]);
          const wanted = segments.reduce((path, [from, to]) => path.replace(from, to), operations[name].path);
          assert.equal(new URL(requests[0].url).pathname, wanted);
        }
      });
    }
  }
});

/** Responses that an operation does not declare. */
function wrong({ statuses, today, required = [] }: Operation): Answer[] {
  const right = bodyOf(today);
  const headers = { Location: "https://elsewhere.test/v1" };
  const empty = (status: number) => [204, 205, 304].includes(status);
  const answers = [300, 301, 302, 303, 304, 307, 308].map(
    (status): Answer =>
      () =>
        new Response(empty(status) ? null : right, { status, headers }),
  );
  for (const status of [200, 201, 202, 204, 205, 206].filter((one) => !statuses.includes(one))) {
    answers.push(() => new Response(empty(status) ? null : right, { status }));
  }
  if (today === undefined) {
    return answers;
  }
  const bodies = ["", "<html>Sign in</html>", "{}", "[]", "null", '"text"', "7", "{", "[".repeat(100_000)];
  for (const field of required) {
    const { [field]: _, ...others } = today;
    bodies.push(JSON.stringify(others), JSON.stringify({ ...today, [field]: [{}] }));
  }
  return [...answers, ...bodies.map((body) => () => new Response(body, { status: statuses[0] }))];
}

describe("a response", () => {
  for (const [name, operation] of Object.entries(operations)) {
    test(`is a result only if it is declared: ${name}`, async () => {
      for (const answer of wrong(operation)) {
        for (const call of methods(name)) {
          const { conclave, requests } = client(answer);
          const error = await failure(call(conclave, plain(name)));
          assert.deepEqual([error.code, error.status], ["unknown", answer().status]);
          assert.ok(error.message.includes(JSON.stringify((await answer().text()).slice(0, 200))), error.message);
          assert.equal(requests.length, 1);
        }
      }
    });

    test(`of a newer server breaks nothing: ${name}`, async () => {
      for (const body of [operation.today, operation.newer]) {
        for (const status of operation.statuses) {
          // Regardless of the declared type.
          for (const headers of [{}, { "Content-Type": "application/json" }]) {
            const answer = () => new Response(bodyOf(body), { status, headers });
            const [result, ...others] = await Promise.all(
              methods(name).map((call) => call(client(answer).conclave, plain(name))),
            );
            const wanted = name === "recording_link" ? "http://conclave.test/files/recordings/EG_1" : body;
            assert.deepEqual(result, wanted);
            assert.ok(others.every((items) => Array.isArray(items) && items.length === 1));
          }
        }
      }
    });
  }

  test("stays on the server, if it is a link", async () => {
    for (const path of ["@elsewhere.test/", ".elsewhere.test/", ":80/"]) {
      const error = await failure(client(() => Response.json({ path })).conclave.recordingLink("EG_1"));
      assert.deepEqual([error.code, error.status], ["unknown", 200]);
    }
  });
});

test("no redirect is followed over a network", async () => {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`);
    const elsewhere = request.url?.startsWith("/elsewhere");
    response.writeHead(elsewhere ? 200 : 302, { Location: "/elsewhere" }).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const conclave = new Conclave({ url, apiKey: KEY });
  const error = await failure(conclave.createRoom({ name: "standup" }));
  assert.deepEqual([error.code, error.status], ["unknown", 302]);
  assert.match(error.message, /leads to "\/elsewhere"/);
  await failure(conclave.recordingLink("EG_1"));
  assert.deepEqual(seen, ["POST /v1/rooms", "GET /files/recordings/EG_1/link?expires_in_seconds=3600"]);
  server.close();
  server.closeAllConnections();

  // Nor by a `fetch` that ignores the option.
  const followed = Object.defineProperty(Response.json(operations.get_room.today), "redirected", { value: true });
  assert.equal((await failure(client(() => followed).conclave.getRoom("a"))).code, "unknown");
});

describe("a key", () => {
  const printed = (error: unknown) => inspect(error, { depth: 9, showHidden: true });

  test("that no header can carry is refused and not printed", () => {
    const keys = [
      "",
      " \n",
      "vk_test_\nsecret",
      "vk_test_\0secret",
      "vk_test_ secret",
      "vk_test_sécret",
      "vk_test_\x7fsecret",
    ];
    for (const apiKey of [...keys, undefined as unknown as string]) {
      assert.throws(
        () => new Conclave({ url: "http://conclave.test", apiKey }),
        (error) => {
          assert.ok(error instanceof ConclaveError);
          assert.equal(error.code, "invalid_key");
          return !/vk_test|cret/.test(printed(error));
        },
      );
    }
  });

  test("has no white space around it", async () => {
    for (const apiKey of ["vk_test_key\n", "\r\n vk_test_key\t", "vk_test_key"]) {
      const sent: Array<string | null> = [];
      const fetch = async (request: Request | string | URL) => {
        sent.push((request as Request).headers.get("Authorization"));
        return teapot();
      };
      await failure(new Conclave({ url: " http://conclave.test/\n", apiKey, fetch }).getPlan());
      assert.deepEqual(sent, ["Bearer vk_test_key"]);
    }
  });

  test("is not printed when it is sent back", async () => {
    const sent = `Authorization: Bearer ${KEY}`;
    const envelope = { error: { code: "unauthorized", message: sent } };
    const answers: Answer[] = [200, 201, 400, 502].map(
      (status) => () => new Response(".".repeat(150) + sent, { status }),
    );
    answers.push(() => Response.json(envelope, { status: 401 }));
    answers.push(() => new Response(null, { status: 308, headers: { Location: `/?${KEY}` } }));
    answers.push(() => {
      throw new TypeError("fetch failed", { cause: new Error(`illegal header ${sent}`) });
    });
    for (const answer of answers) {
      const error = await failure(client(answer).conclave.getRoom("standup"));
      // Nor a usable part of it.
      assert.ok(!printed(error).includes(KEY.slice(0, 10)), printed(error));
    }
  });
});

test("a URL that is none is refused and not printed", () => {
  for (const url of ["", "conclave.test", "ftp://conclave.test", "vk_test_secret", "http://a b", "http://a\nb"]) {
    assert.throws(
      () => new Conclave({ url, apiKey: "vk_test_key" }),
      (error) => error instanceof ConclaveError && error.code === "invalid_url" && !inspect(error).includes("vk_test"),
    );
  }
});
