// The package in an editor: signatures, documentation and completions, from the language service that editors use.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const openapi = process.env.OPENAPI;
assert.ok(openapi, "OPENAPI is the path of tests/data/openapi.json");

interface Operation {
  operationId: string;
  summary: string;
  parameters?: { name: string; in: string }[];
  requestBody?: object;
}
const description = JSON.parse(readFileSync(openapi, "utf8"));
const paths: Record<string, Record<string, Operation>> = description.paths;
const camel = (name: string) => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
const operations = new Map(
  Object.values(paths).flatMap((item) => Object.values(item).map((one) => [camel(one.operationId), one])),
);
const isList = (operation: Operation) => operation.parameters?.some(({ name }) => name === "offset");
const lists = [...operations].flatMap(([name, operation]) => (isList(operation) ? [name] : []));

/** A user's program with strict settings. */
const FILE = "/user.ts";
const HEAD = `import { Conclave, ConclaveError, type Destination, type Room, type RoomStatus, webhooks } from "conclave-sdk";
const conclave = new Conclave();
declare const error: ConclaveError;
declare const room: Room;
declare const maybe: string | undefined;
`;
let text = HEAD;
let version = 0;
const settings: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  types: [],
  paths: { "conclave-sdk": [fileURLToPath(new URL("../src/index.d.ts", import.meta.url))] },
};
const service = ts.createLanguageService({
  getScriptFileNames: () => [FILE],
  getScriptVersion: (name) => (name === FILE ? String(version) : "0"),
  getScriptSnapshot: (name) => {
    const content = name === FILE ? text : ts.sys.readFile(name);
    return content === undefined ? undefined : ts.ScriptSnapshot.fromString(content);
  },
  getCurrentDirectory: () => "/",
  getCompilationSettings: () => settings,
  getDefaultLibFileName: ts.getDefaultLibFilePath,
  fileExists: (name) => name === FILE || ts.sys.fileExists(name),
  readFile: ts.sys.readFile,
});

/** Writes the user's code, and returns the position at its end. */
function write(code: string, head = HEAD): number {
  text = head + code;
  version++;
  return text.length;
}

/** Returns the information about an expression's last name: its type, its documentation, and the documentation's tags. */
function shown(expression: string) {
  const info = service.getQuickInfoAtPosition(FILE, write(expression) - 1);
  assert.ok(info, expression);
  return {
    signature: ts.displayPartsToString(info.displayParts),
    documentation: ts.displayPartsToString(info.documentation),
    tags: (info.tags ?? []).map((tag) => [tag.name, ts.displayPartsToString(tag.text)]),
  };
}

/** Returns the completions at the end of the code. */
function completions(code: string, head = HEAD): string[] {
  const found = service.getCompletionsAtPosition(FILE, write(code, head), {});
  return (found?.entries ?? []).map((entry) => entry.name);
}

function problems(code: string): string[] {
  write(code);
  const found = [...service.getSyntacticDiagnostics(FILE), ...service.getSemanticDiagnostics(FILE)];
  return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
}

describe("a method", () => {
  const signatures = [
    "getPlan(options?: CallOptions): Promise<PlanStatus>",
    "getRoom(room: string, options?: CallOptions): Promise<Room>",
    "createRoom(body: CreateRoom, options?: CallOptions): Promise<Room>",
    "endRoom(room: string, options?: CallOptions): Promise<void>",
    "getRole(templateId: string, role: string, options?: CallOptions): Promise<Role>",
    "putRole(templateId: string, role: string, body: RoleInput, options?: CallOptions): Promise<Role>",
    "muteTrack(room: string, identity: string, body: MuteTrack, options?: CallOptions): Promise<MutedTrack>",
    "exchangeCode(code: string, body?: ExchangeCode, options?: CallOptions): Promise<Token>",
    "startRecording(room: string, body: StartRecording, options?: CallOptions): Promise<Recording>",
    "stopRecording(egressId: string, options?: CallOptions): Promise<Recording>",
    "retryWebhookDelivery(webhookDeliveryId: string, options?: CallOptions): Promise<WebhookDelivery>",
    "listRooms(query?: ListRoomsQuery, options?: CallOptions): Promise<RoomPage>",
    "allRooms(query?: ListRoomsQuery, options?: CallOptions): AsyncGenerator<Room, void, void>",
    "listParticipants(room: string, query?: ListParticipantsQuery, options?: CallOptions): Promise<ParticipantPage>",
  ];
  for (const signature of signatures) {
    test(`is shown as ${signature}`, () => {
      const [name] = signature.split("(");
      assert.equal(shown(`conclave.${name}`).signature, `(method) Conclave.${signature}`);
    });
  }

  test("has nothing but parameters, types and a promise, of every operation", () => {
    const types = "\\w+(\\[\\])?";
    const pattern = new RegExp(
      `^\\(method\\) Conclave\\.\\w+\\((\\w+\\??: ${types}, )*options\\?: CallOptions(, query\\?: \\w+)?\\): ` +
        `(Promise<${types}>|AsyncGenerator<\\w+, void, void>)$`,
    );
    for (const name of [...operations.keys(), ...lists.map((list) => list.replace("list", "all"))]) {
      assert.match(shown(`conclave.${name}`).signature, pattern);
    }
  });

  test("has the documentation of its operation and of its parameters", () => {
    for (const [name, { summary, parameters = [], requestBody }] of operations) {
      const { signature, documentation, tags } = shown(`conclave.${name}`);
      assert.equal(documentation, `${summary}.`);
      const described = tags.filter(([tag]) => tag === "param").map(([, of]) => of.split(" ")[0]);
      const given = [...signature.matchAll(/(\w+)\??:/g)].map(([, parameter]) => parameter);
      assert.deepEqual(
        described,
        given.filter((parameter) => !["query", "options"].includes(parameter)),
      );
      const expected = parameters.filter((one) => one.in === "path").length + (requestBody ? 1 : 0);
      assert.equal(described.length, expected, name);
    }
    const [, thrown] = shown("conclave.createRoom").tags.find(([tag]) => tag === "throws") ?? [];
    assert.match(thrown, /`room_exists`/);
  });

  test("is one of an operation, or an iterator, the link to a file, or the group `ext`", () => {
    const iterators = lists.map((name) => name.replace("list", "all"));
    assert.deepEqual(
      completions("conclave.").sort(),
      [...operations.keys(), ...iterators, "recordingLink", "ext"].sort(),
    );
  });
});

describe("a type", () => {
  test("has a name for users, that the DOM has not", () => {
    const exported = completions('null as unknown as import("conclave-sdk").');
    assert.ok(exported.includes("Room") && exported.includes("CreateRoom"), String(exported));
    assert.deepEqual(
      exported.filter((name) => /(Word|Head|Tail|Responses?)$|^Shown/.test(name)),
      [],
    );
    const globals = new Set(completions("null as unknown as ", ""));
    assert.ok(globals.has("Event"));
    assert.deepEqual(
      exported.filter((name) => globals.has(name)),
      [],
    );
  });

  test("has the documentation of its fields", () => {
    assert.match(shown("room.ended_at").documentation, /^Absent while open\. An instant in UTC/);
    assert.match(shown("room.status").documentation, /from open to ended/);
    assert.equal(shown("room.status").signature, "(property) Room.status: RoomStatus");
  });
});

describe("words", () => {
  test("are completed", () => {
    assert.equal(shown("error.code").signature, "(property) ConclaveError.code: ErrorCode");
    // The description of the calls beyond the contract lists the codes of both.
    const whole = JSON.parse(readFileSync(openapi.replace(/\.json$/, "-ext.json"), "utf8"));
    const codes: string[] = whole.components.schemas.Error.properties.error.properties.code.examples;
    const own = ["connection_failed", "invalid_key", "invalid_parameter", "unknown"];
    assert.deepEqual(completions('error.code === "').sort(), [...codes, ...own].sort());
    assert.deepEqual(completions('room.status === "').sort(), ["ended", "open"]);
    assert.deepEqual(completions('conclave.startRecording("a", { type: "').sort(), [
      "participant",
      "room_composite",
      "track",
    ]);
  });

  test("and fields of a newer server have their place", () => {
    const code = `
      if (room.status === "paused" || error.code === "moved") console.log(room.status.length);
      const known: RoomStatus = "open", later: RoomStatus = "paused";
      conclave.createIngress("a", { input_type: "srt", participant_identity: "b" });`;
    assert.deepEqual(problems(code), []);
  });
});

test("a value that may be missing can be given", () => {
  const code = `
    const options = { signal: undefined, idempotencyKey: maybe, timeout: undefined };
    conclave.createToken({ room: "a", identity: "b", role: maybe, permissions: { can_publish: undefined } }, options);
    conclave.createTemplate({ name: "a", roles: { b: { publish: { video: { height: undefined } } } } });
    conclave.listSessions({ identity: maybe, active: undefined });
    new Conclave({ url: maybe, apiKey: maybe, retry: { maxRetries: undefined } });`;
  assert.deepEqual(problems(code), []);
});

test("a field tells the members of a union apart", () => {
  const code = `
    function bucket(destination: Destination): string {
      if (destination.kind === "rtmp") return destination.config.urls.join();
      return destination.config.type === "azure" ? destination.config.container : destination.config.bucket;
    }
    webhooks.nodeReceiver("secret", (event) => (event.type === "participant.joined" ? event.participant_identity : event.room));
    conclave.startRecording("a", { type: "track", track_id: "TR_1" });
    conclave.createDestination("t", { name: "a", kind: "rtmp", config: { urls: ["rtmp://a/b"] } });`;
  assert.deepEqual(problems(code), []);
});

describe("a mistake is found", () => {
  const mistakes = [
    "conclave.createRoom({ body: { name: 'a' } })",
    "conclave.createRoom()",
    "conclave.createRoom({ nam: 'a' })",
    "conclave.getRoom({ path: { name: 'a' } })",
    "conclave.getRoom()",
    "conclave.listRooms({ query: { limit: 3 } })",
    "conclave.listRooms({ signal: AbortSignal.timeout(1) })",
    "conclave.muteTrack('a', { track_sid: 'b', muted: true })",
    "conclave.startRecording('a', { type: 'track' })",
    "conclave.startRecording('a', { type: 'track', track_id: 'b', layout: 'grid' })",
    "conclave.createDestination('t', { name: 'a', kind: 'rtmp', config: { type: 's3' } })",
    "conclave.call('GET /v1/rooms', {})",
  ];
  for (const mistake of mistakes) {
    test(mistake, () => assert.equal(problems(mistake).length, 1));
  }
});
