//! Paging: `limit` 1 to 200 (default 50), `offset` from 0, and one row more than requested to
//! determine `has_more`.

/// Validated paging parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// Maximum number of rows, 1 to 200.
    pub limit: u32,
    /// Number of rows to skip, from 0.
    pub offset: u64,
}

impl PageRequest {
    /// Default `limit`.
    // The contract's default and range.
    pub const DEFAULT_LIMIT: u32 = 50;
    /// Maximum `limit`.
    pub const MAX_LIMIT: u32 = 200;
    /// Maximum `offset`: the database's largest integer.
    pub const MAX_OFFSET: u64 = i64::MAX.unsigned_abs();
}

impl Default for PageRequest {
    fn default() -> Self {
        Self {
            limit: Self::DEFAULT_LIMIT,
            offset: 0,
        }
    }
}

/// Page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Rows, in the list's total order.
    pub items: Vec<T>,
    /// Request that the page belongs to.
    pub request: PageRequest,
    /// Whether a further page exists.
    pub has_more: bool,
}

impl<T> Page<T> {
    /// Creates a page from up to `limit + 1` rows fetched from `offset` on.
    pub fn from_fetched(mut rows: Vec<T>, request: PageRequest) -> Self {
        let limit = request.limit as usize;
        // Cheaper than a count, which would read all rows.
        let has_more = rows.len() > limit;
        // The additional row belongs to the next page.
        rows.truncate(limit);
        Self {
            items: rows,
            request,
            has_more,
        }
    }

    /// Cuts a page out of a complete list.
    pub fn from_all(rows: Vec<T>, request: PageRequest) -> Self {
        // On a 32-bit system, an offset beyond memory skips everything.
        let skipped = usize::try_from(request.offset).unwrap_or(usize::MAX);
        // One row too many shows `from_fetched` that a further page exists.
        let fetched = rows
            .into_iter()
            .skip(skipped)
            .take(request.limit as usize + 1);
        Self::from_fetched(fetched.collect(), request)
    }

    /// Converts the rows.
    pub fn map<U>(self, convert: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(convert).collect(),
            request: self.request,
            has_more: self.has_more,
        }
    }

    /// Converts the rows.
    ///
    /// # Errors
    /// Returns the first conversion error.
    pub fn try_map<U, E>(self, convert: impl FnMut(T) -> Result<U, E>) -> Result<Page<U>, E> {
        let items = self
            .items
            .into_iter()
            .map(convert)
            .collect::<Result<_, _>>()?;
        Ok(Page {
            items,
            request: self.request,
            has_more: self.has_more,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_past_the_limit_says_that_there_is_more() {
        let request = PageRequest {
            limit: 2,
            offset: 0,
        };
        let page = Page::from_fetched(vec![1, 2, 3], request);
        assert_eq!((page.items, page.has_more), (vec![1, 2], true));
        assert!(!Page::from_fetched(vec![1, 2], request).has_more);
    }

    #[test]
    fn a_page_is_cut_out_of_a_complete_list_with_its_order() {
        let page = Page::from_all(
            vec![1, 2, 3, 4],
            PageRequest {
                limit: 2,
                offset: 1,
            },
        );
        assert_eq!((page.items, page.has_more), (vec![2, 3], true));
        let last = Page::from_all(
            vec![1, 2, 3, 4],
            PageRequest {
                limit: 2,
                offset: 2,
            },
        );
        assert_eq!((last.items, last.has_more), (vec![3, 4], false));
    }

    #[test]
    fn cutting_past_the_end_gives_an_empty_last_page() {
        let page = Page::from_all(
            vec![1, 2, 3],
            PageRequest {
                limit: 2,
                offset: 7,
            },
        );
        assert_eq!((page.items.len(), page.has_more), (0, false));
    }
}
