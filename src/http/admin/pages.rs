//! `/docs/{page}.md`, `/sdk/{language}/README.md` and `/llms.txt`: the documentation of this version as Markdown, for programs and for
//! those who have only the server.

/// Its table of the pages says what each is about.
const README: &str = include_str!("../../../README.md");

macro_rules! pages {
    ($($name:literal),+ $(,)?) => { [$(($name, include_str!(concat!("../../../docs/", $name)))),+] };
}

/// The pages of `docs/`, by their names.
const PAGES: &[(&str, &str)] = &pages![
    "api.md",
    "billing.md",
    "clients.md",
    "cluster.md",
    "configuration.md",
    "deployment.md",
    "embedding.md",
    "from-100ms.md",
    "from-daily.md",
    "from-livekit.md",
    "from-twilio.md",
    "guide.md",
    "livekit.md",
    "operations.md",
    "performance.md",
    "postgresql.md",
    "recordings.md",
    "reliability.md",
    "running.md",
    "webhooks.md",
];

macro_rules! sdks {
    ($($language:literal),+ $(,)?) => {
        [$(($language, include_str!(concat!("../../../sdk/", $language, "/README.md")))),+]
    };
}

/// The pages of the SDKs, by the names of their folders.
const SDKS: &[(&str, &str)] = &sdks!["python", "typescript", "go", "react"];

/// Returns the page of an SDK by its language, such as `python`.
pub(super) fn sdk(language: &str) -> Option<&'static str> {
    SDKS.iter().find(|(known, _)| *known == language).map(|(_, text)| *text)
}

/// Returns a page by its name, such as `running.md`.
pub(super) fn page(name: &str) -> Option<&'static str> {
    PAGES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Returns what `/llms.txt` shows: what Conclave is, and the pages with what they are about, as <https://llmstxt.org> proposes.
pub(super) fn index() -> String {
    let about = README.split("\n\n").nth(1).unwrap_or_default().replace('\n', " ");
    let pages: String =
        described().map(|(title, name, about)| format!("- [{title}](/docs/{name}): {about}\n")).collect();
    let sdks: String = SDKS.iter().map(|(language, text)| listed_sdk(language, text)).collect();
    format!(
        "# Conclave\n\n> {about}\n\n## Documentation\n\n{pages}\n## SDKs\n\n{sdks}\n## API\n\n- [OpenAPI description](/openapi.json): all operations and types, as JSON\n"
    )
}

/// Returns the line of an SDK: the heading of its page, and the first sentence.
fn listed_sdk(language: &str, text: &str) -> String {
    let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
    let about = text.split("\n\n").nth(1).unwrap_or_default().replace("[Conclave](../../README.md)", "Conclave");
    let about = about.replace('\n', " ");
    let sentence = about.split_once(". ").map_or(&*about, |(sentence, _)| sentence);
    format!("- [{title}](/sdk/{language}/README.md): {sentence}\n")
}

/// The rows of the README's table of pages: title, name, and what the page is about.
fn described() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    README.lines().filter_map(|line| {
        let (title, rest) = line.strip_prefix("| [")?.split_once("](docs/")?;
        let (name, about) = rest.split_once(") | ")?;
        Some((title, name, about.strip_suffix(" |")?))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_page_is_in_the_program_and_in_the_table_of_the_readme() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let written: BTreeSet<_> = names.filter(|name| name.ends_with(".md")).collect();
        let embedded: BTreeSet<_> = PAGES.iter().map(|(name, _)| (*name).to_owned()).collect();
        let listed: BTreeSet<_> = described().map(|(_, name, _)| name.to_owned()).collect();
        assert_eq!(embedded, written, "list each page in PAGES");
        assert_eq!(listed, written, "list each page in README.md");
    }

    #[test]
    fn an_sdk_is_listed_by_its_heading_and_first_sentence() {
        let text = "# Conclave for A\n\nCalls [Conclave](../../README.md)\nfrom a server. Typed.\n\nMore.";
        assert_eq!(listed_sdk("a", text), "- [Conclave for A](/sdk/a/README.md): Calls Conclave from a server\n");
    }
}
