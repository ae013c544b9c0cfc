//! Parts of a document: code blocks, quoted words, tables, links and headings.

/// A code block between two fences.
pub struct Block<'a> {
    /// The line above the block, such as `<!-- run -->`.
    pub lead: &'a str,
    pub language: &'a str,
    pub text: String,
}

/// Returns a document's code blocks.
pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    let mut lead = "";
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text = lines
                .by_ref()
                .take_while(|line| *line != "```")
                .map(|line| format!("{line}\n"))
                .collect();
            found.push(Block {
                lead,
                language,
                text,
            });
        }
        lead = line;
    }
    found
}

/// Texts between backticks, outside code blocks.
pub fn quoted(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose
        .flat_map(|part| part.split('`').skip(1).step_by(2))
        .collect()
}

/// Cells by row, from all tables.
pub fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with('|'));
    lines
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

/// Targets of all links.
pub fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .map(|rest| rest.split(')').next().unwrap())
}

/// Targets of links to files, relative to the document's folder.
pub fn links(text: &str) -> Vec<&str> {
    let files = targets(text).map(|target| target.split('#').next().unwrap());
    files
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

/// Returns a heading's anchor in links: in lower case, with dashes for spaces, and without other marks.
pub fn anchor(heading: &str) -> String {
    let kept = heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| {
        if c == ' ' {
            '-'
        } else {
            c.to_ascii_lowercase()
        }
    })
    .collect()
}

#[test]
fn the_parts_of_a_document_are_found() {
    let text = "a `b`\n\n<!-- run -->\n```bash\nls `c`\n```\n\n| d | e `f` |\n|---|---|\n[g](h.md#i) [j](https://example.com)\n";
    let [block] = &blocks(text)[..] else {
        panic!("one block")
    };
    assert_eq!(
        (block.lead, block.language, &*block.text),
        ("<!-- run -->", "bash", "ls `c`\n")
    );
    assert_eq!(quoted(text), ["b", "f"]);
    assert_eq!(rows(text)[0], ["d", "e `f`"]);
    assert_eq!(links(text), ["h.md"]);
    assert_eq!(anchor("## One & two: `three`"), "one--two-three");
}
