//! Plain text tables: columns aligned with spaces and no borders, so that `cut` and `awk` can read them. What would control a terminal, or
//! the direction of the text, is escaped.

use conclave_model::visible::Visible;

/// Formats rows below a line of upper-case headings. Lines have no trailing spaces.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let headings: Vec<String> = headings
        .iter()
        .map(|heading| heading.to_uppercase())
        .collect();
    lines(std::iter::once(&headings).chain(rows))
}

/// Formats each field as a line `name  value`.
pub fn fields(fields: &[(&str, String)]) -> String {
    let rows: Vec<_> = fields
        .iter()
        .map(|(name, value)| vec![(*name).to_owned(), value.clone()])
        .collect();
    lines(rows.iter())
}

/// Formats rows without headings.
pub fn rows(rows: &[Vec<String>]) -> String {
    lines(rows.iter())
}

fn lines<'a>(rows: impl Iterator<Item = &'a Vec<String>>) -> String {
    let visible = |row: &'a Vec<String>| {
        row.iter()
            .map(|cell| Visible(cell).to_string())
            .collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = rows.map(visible).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        for (index, cell) in row.iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(index) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{cell:width$}"))
        .collect();
    format!("{}\n", cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["prj_1".into(), "x".into()],
            vec!["p".into(), "ünïcode".into()],
        ];
        assert_eq!(
            table(&["id", "name"], &rows),
            "ID     NAME\nprj_1  x\np      ünïcode\n"
        );
        assert_eq!(table(&["id"], &[]), "ID\n");
        let rows = [
            vec!["a\u{1b}[2J\n".into(), "x".into()],
            vec!["b\u{202e}c".into(), "y".into()],
        ];
        assert_eq!(
            table(&["id", "name"], &rows),
            "ID            NAME\na\\u{1b}[2J\\n  x\nb\\u{202e}c    y\n"
        );
        assert_eq!(
            fields(&[("name", "x".into()), ("id", String::new())]),
            "name  x\nid\n"
        );
    }
}
