//! The words of all pages, which the browser searches: a script that sets them as one JSON value, since a page that is opened as a file
//! may load scripts but no data.

use serde_json::json;

use super::markdown::Document;

/// Returns the script. Each page has its title and path; each section its page, heading, anchor and text.
pub(super) fn index(documents: &[(&str, Document)]) -> String {
    let pages: Vec<_> = documents
        .iter()
        .map(|(path, document)| json!([document.title, path]))
        .collect();
    let sections = documents
        .iter()
        .enumerate()
        .flat_map(|(page, (_, document))| {
            document.sections.iter().map(move |section| {
                let text = section
                    .text
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ");
                json!([page, section.heading, section.anchor, text])
            })
        });
    let sections: Vec<_> = sections.collect();
    format!(
        "globalThis.searchIndex = {};\n",
        json!({"pages": pages, "sections": sections})
    )
}
