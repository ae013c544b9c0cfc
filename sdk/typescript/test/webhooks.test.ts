// Verification, with the deliveries that test all SDKs.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { webhooks } from "../src/index.js";

interface Case {
  name: string;
  body: string;
  headers: Record<string, string>;
  tolerance: number | null;
  expect: string;
}

const file = process.env.WEBHOOK_VECTORS;
assert.ok(file, "WEBHOOK_VECTORS is the path of sdk/vectors.json");
interface Vectors {
  secret: string;
  now: number;
  cases: Case[];
  beside: Case[];
}
const { secret, now, cases, beside }: Vectors = JSON.parse(readFileSync(file, "utf8"));

const named = (name: string): Case => {
  const found = [...cases, ...beside].find((one) => one.name === name);
  assert.ok(found, name);
  return found;
};

/** Returns the event's type, or the reason why there is no event. */
async function outcome({ body, headers, tolerance }: Case): Promise<string> {
  try {
    return (await webhooks.verify(body, headers, secret, { tolerance, now })).type;
  } catch (error) {
    assert.ok(error instanceof webhooks.WebhookError, String(error));
    return error.reason;
  }
}

describe("a delivery", () => {
  for (const one of [...cases, ...beside]) {
    test(`is accepted or refused: ${one.name}`, async () => {
      assert.equal(await outcome(one), one.expect);
    });
  }

  test("may have its headers as Fetch has them", async () => {
    const { body, headers, expect } = named("track.published, signed");
    const event = await webhooks.verify(new TextEncoder().encode(body), new Headers(headers), secret, { now });
    assert.equal(event.type, expect);
  });

  test("has the fields of its event", () => {
    const events = new Set(cases.filter((one) => one.name.endsWith(", signed")).map((one) => one.expect));
    assert.equal(events.size, 20);
    const event = webhooks.parse(named("track.published, signed").body);
    assert.equal(event.type, "track.published");
    // The event's type determines its fields for the compiler.
    assert.equal(event.type === "track.published" && event.track_source, "camera");
  });
});

test("words and fields of a newer server are kept", () => {
  const newer = beside.filter((one) => one.name.endsWith(", newer"));
  assert.equal(newer.length, 22);
  for (const { body } of newer) {
    assert.deepEqual(webhooks.parse(body), JSON.parse(body));
  }
});

test("the test event is about no room", () => {
  const event = webhooks.parse(named("webhook.test").body);
  assert.deepEqual([event.type, event.project_id, event.room], ["webhook.test", "prj_5f2a9c01be34", undefined]);
});

type Handled = [string, string];

/** Answers a delivery with each kind of receiver, and returns the statuses and the handled events. */
async function received(one: Case, request: RequestInit = {}, handle?: webhooks.EventHandler) {
  const handled: Handled[] = [];
  const note: webhooks.EventHandler = handle ?? ((event, id) => handled.push([event.type, id]));
  const errors: unknown[] = [];
  const options = { tolerance: one.tolerance, now, onError: (error: unknown) => errors.push(error) };
  const init = { method: "POST", body: one.body, headers: one.headers, ...request };
  const fetched = await webhooks
    .fetchReceiver(
      secret,
      note,
      options,
    )(new Request("http://receiver.test/hooks", init))
    .then((response) => response.status, String);

  const node = webhooks.nodeReceiver(secret, note, options);
  const server = createServer((request, response) => void node(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`, init);
  server.close();
  return { statuses: [fetched, response.status], handled, errors };
}

describe("a receiver", () => {
  test("handles what is verified", async () => {
    const { statuses, handled } = await received(named("participant.left, signed"));
    assert.deepEqual(statuses, [204, 204]);
    const once = ["participant.left", "0192f5a0-0000-7000-8000-000000000001"];
    assert.deepEqual(handled, [once, once]);
  });

  for (const name of ["webhook.test", "participant.joined, newer", "track.published, newer"]) {
    test(`handles ${name}`, async () => {
      const { statuses, handled } = await received(named(name));
      assert.deepEqual(
        [statuses, handled.map(([type]) => type)],
        [
          [204, 204],
          [named(name).expect, named(name).expect],
        ],
      );
    });
  }

  const refused = { "too old": 401, "an altered body": 401, "no signature": 401, "no JSON": 400 };
  for (const [name, status] of Object.entries({
    ...refused,
    "an event of a newer server": 204,
    "a newer event about no room": 204,
  })) {
    test(`answers ${status} to ${name}`, async () => {
      const { statuses, handled } = await received(named(name));
      assert.deepEqual([statuses, handled], [[status, status], []]);
    });
  }

  test("takes only what can be an event", async () => {
    const signed = named("room.started, signed");
    assert.deepEqual((await received(signed, { method: "GET", body: null })).statuses, [405, 405]);
    const large = await received(signed, { body: " ".repeat(1024 * 1024 + 1) });
    assert.deepEqual(large.statuses, [413, 413]);
  });

  test("does not accept what is not handled", async () => {
    const fail = async () => {
      throw new Error("full");
    };
    const { statuses, errors } = await received(named("room.started, signed"), {}, fail);
    assert.deepEqual([statuses, errors.map(String)], [["Error: full", 500], ["Error: full"]]);
  });

  test("says that a parser has read the body", async () => {
    const errors: unknown[] = [];
    const node = webhooks.nodeReceiver(secret, () => {}, { onError: (error) => errors.push(error) });
    const response = { statusCode: 0, end: () => {} };
    const nothing = (async function* () {})();
    await node(Object.assign(nothing, { method: "POST", headers: {}, body: { type: "room.started" } }), response);
    assert.equal(response.statusCode, 500);
    assert.match(String(errors[0]), /before express\.json/);
  });
});
