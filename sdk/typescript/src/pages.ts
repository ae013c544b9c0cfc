/** Fields of a list page besides its items. */
interface Page {
  limit: number;
  offset: number;
  has_more: boolean;
}

/** Type of a page's items. */
type Item<P extends Page> = P[Exclude<keyof P, keyof Page>] extends Array<infer T> ? T : never;

/** Yields a list's items, page by page. */
export async function* items<Q extends { offset?: number | undefined }, P extends Page>(
  query: Q | undefined,
  list: (query: Q & { offset: number }) => Promise<P>,
): AsyncGenerator<Item<P>, void, void> {
  let offset = query?.offset ?? 0;
  for (;;) {
    const page = await list({ ...query, offset } as Q & { offset: number });
    const found = Object.values(page).find(Array.isArray) ?? [];
    yield* found;
    offset += found.length;
    if (!page.has_more || found.length === 0) {
      return;
    }
  }
}
