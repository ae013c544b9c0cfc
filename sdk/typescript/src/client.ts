import { baseUrlOf, Credential } from "./credential.js";
import { fromEnvironment } from "./environment.js";
import { ConclaveError } from "./errors.js";
import { createClient } from "./generated/client/index.js";
import { Operations, type Options } from "./generated/sdk.gen.js";
import type {
  ListBroadcastsData,
  ListCodesData,
  ListIngressesData,
  ListParticipantsData,
  ListRecordingsData,
  ListRoleChangesData,
  ListRoomRecordingsData,
  ListRoomSessionsData,
  ListRoomsData,
  ListSessionsData,
  ListTemplatesData,
  ListWebhookDeliveriesData,
  ListWebhookEndpointsData,
} from "./generated/types.gen.js";
import { items } from "./pages.js";
import { checkPath } from "./paths.js";
import type { RetryPolicy } from "./retry.js";
import { transport } from "./transport.js";

export interface ConclaveOptions {
  /** Where the API is, such as `https://meet.example.org`; by default `CONCLAVE_URL` of the environment. */
  url?: string;
  /** A key of the project, `vk_…`; by default `CONCLAVE_KEY` of the environment. */
  apiKey?: string;
  retry?: RetryPolicy;
  /** Seconds that an attempt may take; 30 by default. */
  timeout?: number;
  /** What sends the requests, if that is not the `fetch` of this runtime. */
  fetch?: typeof globalThis.fetch;
}

/**
 * A project, by the URL of its server and one of its API keys. Has a method for each operation of the API, and for each list
 * an iterator over the items of all its pages, from `offset` on; `limit` is the size of a page.
 */
export class Conclave extends Operations {
  readonly #url: string;

  /** @throws ConclaveError if the URL or the key is missing or cannot be one. */
  constructor({ retry = {}, timeout = 30, fetch = globalThis.fetch, ...given }: ConclaveOptions = {}) {
    const [url, apiKey] = fromEnvironment(given.url, given.apiKey);
    const send = transport({ credential: new Credential(apiKey), retry, timeout, fetch });
    const baseUrl = baseUrlOf(url);
    // The generated client calls `fetch` with requests only, which do not say of what operation they are.
    const operations = new WeakMap<Request, string>();
    const client = createClient({
      baseUrl,
      throwOnError: true,
      parseAs: "json",
      redirect: "manual",
      requestValidator: checkPath,
      fetch: (request) => send(request as Request, operations.get(request as Request) ?? ""),
    });
    client.interceptors.request.use((request, { method, url }) => {
      operations.set(request, `${method} ${url}`);
      return request;
    });
    super({ client });
    this.#url = baseUrl;
  }

  /**
   * Returns a link to the file of a recording on the server's disk, for those without an API key. It is valid for 1 second to
   * 7 days, by default for an hour.
   */
  async recordingLink(egressId: string, { expiresInSeconds = 3600 } = {}): Promise<string> {
    const link = await this.client.get<{ 200: { path: string } }, unknown, true, "data">({
      responseStyle: "data",
      url: "/files/recordings/{egress_id}/link",
      path: { egress_id: egressId },
      query: { expires_in_seconds: expiresInSeconds },
    });
    // Anything else would change the host.
    if (!link.path.startsWith("/")) {
      throw new ConclaveError("unknown", "the response has no path of this server", { status: 200 });
    }
    return this.#url + link.path;
  }

  allBroadcasts(options: Options<ListBroadcastsData, true> = {}) {
    return items(options, (page) => this.listBroadcasts(page));
  }

  allCodes(options: Options<ListCodesData, true>) {
    return items(options, (page) => this.listCodes(page));
  }

  allIngresses(options: Options<ListIngressesData, true> = {}) {
    return items(options, (page) => this.listIngresses(page));
  }

  allParticipants(options: Options<ListParticipantsData, true>) {
    return items(options, (page) => this.listParticipants(page));
  }

  allRecordings(options: Options<ListRecordingsData, true> = {}) {
    return items(options, (page) => this.listRecordings(page));
  }

  allRoleChanges(options: Options<ListRoleChangesData, true>) {
    return items(options, (page) => this.listRoleChanges(page));
  }

  allRoomRecordings(options: Options<ListRoomRecordingsData, true>) {
    return items(options, (page) => this.listRoomRecordings(page));
  }

  allRoomSessions(options: Options<ListRoomSessionsData, true>) {
    return items(options, (page) => this.listRoomSessions(page));
  }

  allRooms(options: Options<ListRoomsData, true> = {}) {
    return items(options, (page) => this.listRooms(page));
  }

  allSessions(options: Options<ListSessionsData, true> = {}) {
    return items(options, (page) => this.listSessions(page));
  }

  allTemplates(options: Options<ListTemplatesData, true> = {}) {
    return items(options, (page) => this.listTemplates(page));
  }

  allWebhookDeliveries(options: Options<ListWebhookDeliveriesData, true> = {}) {
    return items(options, (page) => this.listWebhookDeliveries(page));
  }

  allWebhookEndpoints(options: Options<ListWebhookEndpointsData, true> = {}) {
    return items(options, (page) => this.listWebhookEndpoints(page));
  }
}
