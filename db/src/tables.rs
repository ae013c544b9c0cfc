//! Record tables and their rows, as an import copies them.

use blake3::Hasher;

use crate::error::StoreError;
use crate::sql::Row;
use crate::sql::values::{Column, Value};

/// Record tables, each after the tables that its rows refer to.
pub(crate) const TABLES: [&str; 24] = [
    "projects",
    "api_keys",
    "templates",
    "roles",
    "rooms",
    "sessions",
    "tracks",
    "webhook_endpoints",
    "events",
    "webhook_deliveries",
    "role_changes",
    "codes",
    "bans",
    "revocations",
    "usage_days",
    "destinations",
    "egresses",
    "ingresses",
    "erasures",
    "idempotency",
    "heartbeat",
    "uploads",
    "quality_samples",
    "session_quality",
];

/// Value in a row. A UUID is its bytes, as in SQLite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Column for Cell {
    fn read(value: Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer(number),
            Value::Text(text) => Self::Text(text.into()),
            Value::Bytes(bytes) => Self::Bytes(bytes.into()),
            // Compared with SQLite's rows, which have bytes.
            Value::Uuid(uuid) => Self::Bytes(uuid.into()),
        })
    }
}

impl<'a> From<&'a Cell> for Value<'a> {
    fn from(cell: &'a Cell) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Integer(number) => Self::Integer(*number),
            Cell::Text(text) => Self::Text(text),
            Cell::Bytes(bytes) => Self::Bytes(bytes),
        }
    }
}

impl Cell {
    /// Reads a row's columns.
    pub(crate) fn read_row(row: &Row<'_>, columns: usize) -> Result<Vec<Self>, StoreError> {
        (0..columns).map(|index| row.read(index)).collect()
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            // An estimate is enough: batches are limited to save memory.
            Self::Null | Self::Integer(_) => 8,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Removes the characters U+0000 of a text. Returns whether there were any.
    pub(crate) fn remove_nul(&mut self) -> bool {
        match self {
            Self::Text(text) if text.contains('\0') => {
                // SQLite stores them, PostgreSQL does not.
                text.retain(|character| character != '\0');
                true
            }
            _ => false,
        }
    }

    /// Hashes the type, the length and the bytes, so that different rows have different inputs.
    fn hash(&self, hasher: &mut Hasher) {
        let number: [u8; 8];
        let (kind, bytes): (u8, &[u8]) = match self {
            Self::Null => (0, &[]),
            Self::Integer(integer) => {
                number = integer.to_be_bytes();
                (1, &number)
            }
            Self::Text(text) => (2, text.as_bytes()),
            Self::Bytes(bytes) => (3, bytes),
        };
        hasher
            .update(&[kind])
            .update(&(bytes.len() as u64).to_be_bytes())
            .update(bytes);
    }
}

/// Row count and sum of row hashes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    rows: u64,
    sum: u128,
}

impl Content {
    pub(crate) fn add(&mut self, row: &[Cell]) {
        let mut hasher = Hasher::new();
        row.iter().for_each(|cell| cell.hash(&mut hasher));
        let mut half = [0; 16];
        hasher.finalize_xof().fill(&mut half);
        // A sum, since the engines return rows in different orders.
        self.rows += 1;
        // 128 bits are enough against accidental equality.
        self.sum = self.sum.wrapping_add(u128::from_be_bytes(half));
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(rows: &[&[Cell]]) -> Content {
        let mut content = Content::default();
        rows.iter().for_each(|row| content.add(row));
        content
    }

    #[test]
    fn every_difference_but_that_of_order_is_seen() {
        let text = |text: &str| Cell::Text(text.into());
        let (a, b) = ([Cell::Integer(1), text("a")], [Cell::Null, text("")]);
        let both = content(&[&a, &b]);
        assert_eq!(both, content(&[&b, &a]));
        for other in [
            content(&[&a]),
            content(&[&a, &a]),
            content(&[&a, &b, &b]),
            content(&[&a, &[Cell::Null, Cell::Null]]),
            content(&[&a, &[text(""), Cell::Null]]),
            content(&[&[Cell::Integer(1), Cell::Bytes(b"a".into())], &b]),
            content(&[&[Cell::Integer(2), text("a")], &b]),
        ] {
            assert_ne!(both, other);
        }
        assert_ne!(
            content(&[&[text("a"), text("bc")]]),
            content(&[&[text("ab"), text("c")]])
        );
    }

    #[test]
    fn a_text_is_stored_without_characters_that_postgresql_cannot_store() {
        let mut cells = [
            Cell::Text("a\0b".into()),
            Cell::Text("ab".into()),
            Cell::Bytes(vec![0]),
        ];
        assert_eq!(cells.each_mut().map(Cell::remove_nul), [true, false, false]);
        assert_eq!(cells[0], cells[1]);
    }
}
