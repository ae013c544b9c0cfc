// A backend's actions with the TypeScript SDK, against a real server behind the proxy of scripts/check sdks.
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Conclave, ConclaveError, type WebhookEvent, webhooks } from "conclave-sdk";
import express from "express";

const url = process.env.CONCLAVE_URL ?? "";
const apiKey = process.env.CONCLAVE_KEY ?? "";
const name = "typescript-lesson";
// The server restarts within a call's retries.
const conclave = new Conclave({ url, apiKey, retry: { maxRetries: 8 } });

function check(what: string, passed: boolean): void {
  console.log(`    ${passed ? "ok    " : "FAILED"} ${what}`);
  if (!passed) {
    process.exit(1);
  }
}

async function within(what: string, done: () => boolean | Promise<boolean>): Promise<void> {
  const until = Date.now() + 30_000;
  while (!(await done()) && Date.now() < until) {
    await sleep(100);
  }
  check(what, await done());
}

/** Requests a fault from the proxy, or an action of a simulated client from the sandbox. */
async function order(path: string, body: object = {}): Promise<{ sid: string }> {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
  check(`${path} is ${response.status}`, response.ok);
  return JSON.parse((await response.text()) || "{}");
}

async function refused(code: string, call: Promise<unknown>): Promise<ConclaveError> {
  const error = await call.catch((error: unknown) => error);
  check(`refused with ${code}`, error instanceof ConclaveError && error.code === code);
  return error as ConclaveError;
}

/** Returns the response to a browser's request for a link. */
async function fetched(link: string): Promise<string> {
  const response = await fetch(link);
  return `${response.status} ${await response.text()}`;
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) {
    all.push(item);
  }
  return all;
}

/** An application with two receivers: the SDK's own, and a manual receiver that verifies and records the deliveries. */
async function receivers() {
  const handled = new Map<string, WebhookEvent>();
  const raw: { body: Buffer; headers: webhooks.WebhookHeaders }[] = [];
  const app = express();
  const listener = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => listener.once("listening", resolve));
  const at = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  const hooks = await conclave.createWebhookEndpoint({ url: `${at}/hooks` });
  const byHand = await conclave.createWebhookEndpoint({ url: `${at}/raw` });
  app.post(
    "/hooks",
    webhooks.nodeReceiver(hooks.secret, (event, id) => handled.set(id, event)),
  );
  app.post("/raw", express.raw({ type: "application/json" }), async (request, response) => {
    await webhooks.verify(request.body, request.headers, byHand.secret);
    raw.push({ body: request.body, headers: request.headers });
    response.sendStatus(204);
  });
  const types = () => new Set([...handled.values()].map((event) => event.type));
  return { handled, raw, types, secret: byHand.secret, close: () => listener.close() };
}

type Receivers = Awaited<ReturnType<typeof receivers>>;

async function aLesson({ handled, types }: Receivers): Promise<string> {
  const teacher = { permissions: { mute_others: true, unmute_others: true } };
  const template = await conclave.createTemplate({ name: "typescript", roles: { teacher, student: {} } });
  check("a template with two roles", Object.keys(template.roles).sort().join() === "student,teacher");
  const metadata = { class: [5, "b"] };
  const room = await conclave.createRoom({ name, template_id: template.id, metadata });
  check("a room with metadata", room.status === "open" && JSON.stringify(room.metadata) === JSON.stringify(metadata));

  const { token } = await conclave.createToken({ room: name, identity: "alice", role: "teacher" });
  const alice = (await order("/sandbox/join", { token })).sid;
  const code = await conclave.createCode(name, { role: "student", identity: "bob", max_uses: 1 });
  const exchanged = await conclave.exchangeCode(code.code);
  check("a code for a token", exchanged.role === "student");
  await order("/sandbox/join", { token: exchanged.token });
  const track = (await order(`/sandbox/participants/${alice}/tracks`, { kind: "video", source: "camera" })).sid;

  const participants = await collect(conclave.allParticipants(name));
  check(
    "two participants",
    participants
      .map((one) => one.identity)
      .sort()
      .join() === "alice,bob",
  );
  const muted = await conclave.muteTrack(name, "alice", { track_sid: track, muted: true });
  check("muted", muted.track.muted);
  const data = { data: "aGVsbG8=", destination_identities: ["bob"] };
  check("data", (await conclave.sendData(name, data)).bytes === 5);
  const { role_change: change } = await conclave.changeRole(name, "bob", { role: "teacher" });
  check("another role", change.previous_role === "student" && change.role === "teacher");
  await conclave.removeParticipant(name, "bob");
  const gone = await refused("participant_not_found", conclave.getParticipant(name, "bob"));
  check("gone", gone.status === 404);

  const { egress_id } = await conclave.startRecording(name, { type: "room_composite", layout: "grid" });
  const is = async (status: string) => (await conclave.getRecording(egress_id)).status === status;
  await within("the recording is active", () => is("active"));
  await refused("recording_not_found", conclave.recordingLink(egress_id));
  await conclave.stopRecording(egress_id);
  await within("the recording is complete", () => is("complete"));
  const link = await aLink(egress_id);
  const after = new Date(Date.now() - 3_600_000).toISOString();
  const [session] = await collect(conclave.allSessions({ identity: "bob", after }));
  check("a session", session.left_at !== undefined && session.room === name);

  const expected: WebhookEvent["type"][] = ["room.started", "participant.joined", "track.published", "recording.ended"];
  expected.push("participant.role_changed", "participant.left", "recording.started");
  await within("every event was received and verified", () => expected.every((type) => types().has(type)));
  const joined = [...handled.values()].flatMap((event) =>
    event.type === "participant.joined" ? [event.participant_identity] : [],
  );
  check("typed events", joined.sort().join() === "alice,bob");
  return link;
}

/** Returns a link to a recording's file, which needs no key. */
async function aLink(egress_id: string): Promise<string> {
  const { project_id, filepath } = await conclave.getRecording(egress_id);
  await order("/recording", { path: `${project_id}/${filepath}`, text: name });
  const link = await conclave.recordingLink(egress_id);
  check("a link to its file", (await fetched(link)) === `200 ${name}`);
  check("an altered link is refused", (await fetched(link.replace("expires=1", "expires=2"))).startsWith("401"));
  const short = await conclave.recordingLink(egress_id, { expiresInSeconds: 1 });
  await within("a link expires", async () => (await fetched(short)).startsWith("401"));
  return link;
}

async function whatIsNotADelivery({ raw, secret }: Receivers): Promise<void> {
  await within("a delivery was kept", () => raw.length > 0);
  const { body, headers } = raw[0];
  const sent = headers as Record<string, string>;
  async function reason(body: Uint8Array, headers: webhooks.WebhookHeaders, now?: number): Promise<string> {
    try {
      return (await webhooks.verify(body, headers, secret, { now })).type;
    } catch (error) {
      return error instanceof webhooks.WebhookError ? error.reason : String(error);
    }
  }
  const now = Math.floor(Date.now() / 1000);
  check("it is verified again", (await reason(body, sent)) === sent["x-svc-event"]);
  const altered = Buffer.from(body.toString().replace("typescript", "typescripd"));
  check("an altered one is refused", (await reason(altered, sent)) === "wrong_signature");
  check("an old one is refused", (await reason(body, sent, now + 400)) === "outside_tolerance");
  const retimed = { ...sent, "webhook-timestamp": String(now + 100) };
  check("one with another time is refused", (await reason(body, retimed)) === "wrong_signature");
  const timeless = { "x-svc-signature": sent["x-svc-signature"] };
  check("one without a time is refused", (await reason(body, timeless)) === "unsigned");
}

async function manyRooms(): Promise<void> {
  const names = Array.from({ length: 7 }, (_, number) => `typescript-${number}`);
  for (const name of names) {
    await conclave.createRoom({ name });
  }
  const rooms = await collect(conclave.allRooms({ limit: 3 }));
  check("an iterator over pages", rooms.map((room) => room.name).join() === [...names.reverse(), name].join());
  check("a page", (await conclave.listRooms({ limit: 3 })).has_more);
}

async function refusals(): Promise<void> {
  const exists = await refused("room_exists", conclave.createRoom({ name }));
  check("its status and request id", exists.status === 409 && Boolean(exists.requestId));
  const invalid = await refused("invalid_room_name", conclave.createRoom({ name: "/" }));
  check("its field", invalid.field === "name");
  const stranger = new Conclave({ url, apiKey: "vk_test_wrong" });
  check("a wrong key", (await refused("unauthorized", stranger.getPlan())).status === 401);
}

async function faults(): Promise<void> {
  const plans = await Promise.all(Array.from({ length: 90 }, () => conclave.getPlan()));
  check(
    "90 calls at once, beyond the rate",
    plans.every((plan) => plan.plan_id),
  );
  const impatient = new Conclave({ url, apiKey, retry: { maxRetries: 0 } });
  // Repeated on a slow machine, where the rate is not exceeded at once.
  await within("without repeats, an error that says when", async () => {
    const results = await Promise.allSettled(Array.from({ length: 90 }, () => impatient.getPlan()));
    const errors = results.flatMap((result) => (result.status === "rejected" ? [result.reason as ConclaveError] : []));
    return errors.some((error) => error.code === "rate_limited" && (error.retryAfter ?? 0) >= 1);
  });

  await order("/sandbox/outage", { seconds: 2 });
  const { participants } = await conclave.listParticipants(name);
  check("after an outage of the media plane", participants.length === 1);
  await order("/faults", { match: "POST /v1/rooms", answer: 503, retry_after: 1, times: 2 });
  check("after two 503", (await conclave.createRoom({ name: "typescript-503" })).status === "open");
  await order("/faults", { match: "GET /v1/plan", answer: 503, retry_after: 3600, times: 1 });
  check("a long wait is told", (await refused("media_unavailable", conclave.getPlan())).retryAfter === 3600);
  await order("/faults", { match: "POST /v1/rooms", answer: "cut", times: 1 });
  check("after a cut answer", (await conclave.createRoom({ name: "typescript-cut" })).status === "open");
  await order("/faults", { match: `POST /v1/rooms/${name}/ingress`, answer: "cut", times: 1 });
  const encoder = { input_type: "whip", participant_identity: "encoder" };
  const error = await refused("connection_failed", conclave.createIngress(name, encoder));
  const { ingresses } = await conclave.listIngresses();
  check("what cannot be repeated is not", error.status === undefined && ingresses.length === 1);
}

const deliveries = await receivers();
const link = await aLesson(deliveries);
await whatIsNotADelivery(deliveries);
await manyRooms();
await refusals();
await faults();
await order("/kill");
check("after a kill", (await conclave.createRoom({ name: "typescript-kill" })).status === "open");
check("nothing is lost", (await conclave.getRoom(name)).status === "open");
check("the link is still valid", (await fetched(link)) === `200 ${name}`);
await conclave.endRoom(name);
await within("its end is reported", () => deliveries.types().has("room.finished"));
deliveries.close();
