/** What a page of a list has, besides its items. */
interface Page {
  limit: number;
  offset: number;
  has_more: boolean;
}

/** The type of the items of a page. */
type Item<P extends Page> = P[Exclude<keyof P, keyof Page>] extends Array<infer T> ? T : never;

/** Yields the items of a list's pages, one page after the other. */
export async function* items<O extends { query?: { offset?: number } }, P extends Page>(
  options: O,
  list: (options: O) => Promise<P>,
): AsyncGenerator<Item<P>, void, void> {
  let offset = options.query?.offset ?? 0;
  for (;;) {
    const page = await list({ ...options, query: { ...options.query, offset } });
    const found = Object.values(page).find(Array.isArray) ?? [];
    yield* found;
    offset += found.length;
    if (!page.has_more || found.length === 0) {
      return;
    }
  }
}
