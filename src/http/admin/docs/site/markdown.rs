//! Markdown to HTML, with sections. Raw HTML is displayed as text. Comments are dropped: they are instructions for programs that run
//! the examples.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::html::push_html;
use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Rendered page.
pub(super) struct Document {
    /// First heading's text.
    pub title: String,
    pub html: String,
    /// Headings in order, each with the text up to the next one.
    pub sections: Vec<Section>,
}

/// Heading with the text below it.
pub(super) struct Section {
    /// 1 for the page's title.
    pub level: HeadingLevel,
    /// Id that links use.
    pub anchor: String,
    pub heading: String,
    /// Text for the search, without markup.
    pub text: String,
}

/// URLs for references, in the form that the site is rendered for.
pub(super) trait PageUrls {
    /// Returns the URL for a link's or image's target.
    fn link(&self, target: &str) -> String;
    /// Returns the URL for a diagram's image.
    fn diagram(&self, source: &str) -> Option<String>;
}

/// Renders a page.
pub(super) fn render(markdown: &str, urls: &impl PageUrls) -> Document {
    let mut writer = Writer {
        urls,
        html: String::new(),
        sections: Vec::new(),
        anchors: BTreeMap::new(),
        links: 0,
    };
    let mut events = Parser::new_ext(
        markdown,
        // The extensions that GitHub renders as well.
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH,
    );
    let mut shown = Vec::new();
    while let Some(event) = events.next() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let inner = events
                    .by_ref()
                    .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
                let inner: Vec<_> = inner.collect();
                shown.push(writer.heading(level, inner));
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let inner = events
                    .by_ref()
                    .take_while(|event| !matches!(event, Event::End(TagEnd::CodeBlock)));
                let code = text_of_all(inner);
                shown.push(writer.code(&kind, &code));
            }
            Event::Start(Tag::HtmlBlock) => {
                let inner = events
                    .by_ref()
                    .take_while(|event| !matches!(event, Event::End(TagEnd::HtmlBlock)));
                let raw = text_of_all(inner);
                if !raw.starts_with("<!--") {
                    shown.push(Event::Text(raw.into()));
                }
            }
            other => writer.inline(other, &mut shown),
        }
    }
    push_html(&mut writer.html, shown.into_iter());
    // An empty header cell has no meaning for screen readers.
    writer.html = writer.html.replace("<th></th>", "<td></td>");
    let title = writer
        .sections
        .first()
        .map(|section| section.heading.clone())
        .unwrap_or_default();
    Document {
        title,
        html: writer.html,
        sections: writer.sections,
    }
}

/// Returns the first heading's text.
pub(super) fn title(markdown: &str) -> &str {
    markdown
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("# ")
}

/// Returns a heading's id by GitHub's rule, so that links work here and on GitHub: lower case, dashes for spaces, no other punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading
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

fn text_of(event: Event<'_>) -> Option<CowStr<'_>> {
    match event {
        Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
            Some(text)
        }
        Event::SoftBreak | Event::HardBreak => Some(" ".into()),
        _ => None,
    }
}

fn text_of_all<'a>(events: impl IntoIterator<Item = Event<'a>>) -> String {
    events
        .into_iter()
        .filter_map(text_of)
        .map(CowStr::into_string)
        .collect()
}

fn as_event(markup: Markup) -> Event<'static> {
    Event::Html(markup.into_string().into())
}

struct Writer<'a, P> {
    urls: &'a P,
    html: String,
    sections: Vec<Section>,
    /// Number of headings per anchor so far.
    anchors: BTreeMap<String, usize>,
    /// Depth of open links: a image inside a link has no link of its own.
    links: usize,
}

impl<P: PageUrls> Writer<'_, P> {
    fn heading(&mut self, level: HeadingLevel, inner: Vec<Event<'_>>) -> Event<'static> {
        let heading = text_of_all(inner.iter().cloned());
        let base = anchor(&heading);
        let count = self.anchors.entry(base.clone()).or_default();
        // GitHub numbers repeated headings the same way.
        let anchor = if *count == 0 {
            base
        } else {
            format!("{base}-{count}")
        };
        *count += 1;
        let mut rewritten = Vec::new();
        for event in inner {
            self.place(event, &mut rewritten);
        }
        let mut content = String::new();
        push_html(&mut content, rewritten.into_iter());
        let content = PreEscaped(format!(
            "<{level} id=\"{anchor}\">{content}{}</{level}>\n",
            html! { a.anchor href={ "#" (anchor) } aria-label={ "Link to " (heading) } { "#" } }
                .into_string()
        ));
        self.sections.push(Section {
            level,
            anchor,
            heading,
            text: String::new(),
        });
        as_event(content)
    }

    fn code(&mut self, kind: &CodeBlockKind<'_>, code: &str) -> Event<'static> {
        let language = match kind {
            CodeBlockKind::Fenced(language) => &**language,
            CodeBlockKind::Indented => "",
        };
        if language == "mermaid" {
            return as_event(self.diagram(code));
        }
        // JSON examples only repeat the names in the text around them.
        if language != "json" {
            self.index(code);
        }
        as_event(code_block(code))
    }

    fn diagram(&self, source: &str) -> Markup {
        html! {
            // A browser displays the image; the source is text for readers who cannot see it.
            figure.diagram {
                @match self.urls.diagram(source) {
                    Some(picture) => {
                        a.picture href=(picture) { img src=(picture) alt="Diagram; its source follows"; }
                        details { summary { "Source of the diagram" } (code_block(source)) }
                    }
                    None => {
                        (code_block(source))
                        figcaption { "A diagram, as Mermaid text" }
                    }
                }
            }
        }
    }

    /// Adds an inline event, with its words.
    fn inline<'a>(&mut self, event: Event<'a>, shown: &mut Vec<Event<'a>>) {
        match &event {
            Event::Text(text) | Event::Code(text) => self.index(text),
            // A space, because words on two lines would join in the index.
            Event::SoftBreak | Event::HardBreak | Event::End(_) => self.index(" "),
            _ => {}
        }
        self.place(event, shown);
    }

    /// Adds an event with its reference resolved.
    fn place<'a>(&mut self, event: Event<'a>, shown: &mut Vec<Event<'a>>) {
        match event {
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }) => {
                self.links += 1;
                let dest_url = self.urls.link(&dest_url).into();
                shown.push(Event::Start(Tag::Link {
                    link_type,
                    dest_url,
                    title,
                    id,
                }));
            }
            Event::End(TagEnd::Link) => {
                self.links = self.links.saturating_sub(1);
                shown.push(Event::End(TagEnd::Link));
            }
            Event::Start(Tag::Image {
                link_type,
                dest_url,
                title,
                id,
            }) => {
                let dest_url: CowStr<'a> = self.urls.link(&dest_url).into();
                if self.links == 0 {
                    // An image opens in full size, unless it is a link already.
                    shown.push(Event::InlineHtml(
                        format!("<a class=\"picture\" href=\"{dest_url}\">").into(),
                    ));
                }
                shown.push(Event::Start(Tag::Image {
                    link_type,
                    dest_url,
                    title,
                    id,
                }));
            }
            Event::End(TagEnd::Image) => {
                shown.push(Event::End(TagEnd::Image));
                if self.links == 0 {
                    shown.push(Event::InlineHtml("</a>".into()));
                }
            }
            // `tabindex` makes a table that is wider than the window scrollable by keyboard.
            Event::Start(Tag::Table(alignments)) => {
                shown.push(Event::Html(
                    "<div class=\"table\" role=\"group\" aria-label=\"Table\" tabindex=\"0\">"
                        .into(),
                ));
                shown.push(Event::Start(Tag::Table(alignments)));
            }
            Event::End(TagEnd::Table) => {
                shown.extend([Event::End(TagEnd::Table), Event::Html("</div>\n".into())]);
            }
            Event::InlineHtml(raw) | Event::Html(raw) => {
                if !raw.starts_with("<!--") {
                    shown.push(Event::Text(raw));
                }
            }
            other => shown.push(other),
        }
    }

    /// Adds words to the current section.
    fn index(&mut self, text: &str) {
        if let Some(section) = self.sections.last_mut() {
            section.text.push_str(text);
        }
    }
}

/// Renders a block of code. A script adds a button that copies it.
pub(super) fn code_block(code: &str) -> Markup {
    // Focusable, so that a long line can be scrolled by keyboard.
    html! { div.code { pre tabindex="0" { code { (code) } } } "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Unchanged;

    impl PageUrls for Unchanged {
        fn link(&self, target: &str) -> String {
            format!("to:{target}")
        }

        fn diagram(&self, source: &str) -> Option<String> {
            (source == "graph LR\n").then(|| "graph.svg".to_owned())
        }
    }

    fn rendered(markdown: &str) -> String {
        render(markdown, &Unchanged).html
    }

    #[test]
    fn headings_have_the_anchors_of_github_also_if_they_repeat() {
        let document = render(
            "# One & two: `three`\na `b`\n## Part\nc\n## Part\n```bash\nls\n```\n```json\n{}\n```\n",
            &Unchanged,
        );
        let found: Vec<_> = document
            .sections
            .iter()
            .map(|s| (&*s.anchor, &*s.heading, s.text.trim()))
            .collect();
        let expected = [
            ("one--two-three", "One & two: three", "a b"),
            ("part", "Part", "c"),
            ("part-1", "Part", "ls"),
        ];
        assert_eq!(found, expected);
        assert_eq!(document.title, "One & two: three");
        assert!(
            document
                .html
                .contains("<h2 id=\"part-1\">Part<a class=\"anchor\" href=\"#part-1\""),
            "{}",
            document.html
        );
    }

    #[test]
    fn raw_html_is_text_and_comments_are_left_out() {
        let html = rendered(
            "<!-- run -->\n```bash\na <b>\n```\n\nc <i>d</i> <!-- e --> f\n\n<script>\nalert(1)\n</script>\n",
        );
        assert!(html.contains("<code>a &lt;b&gt;\n</code>"), "{html}");
        assert!(html.contains("c &lt;i&gt;d&lt;/i&gt;  f"), "{html}");
        assert!(html.contains("&lt;script&gt;"), "{html}");
        assert!(
            !html.contains("<!--") && !html.contains("<script"),
            "{html}"
        );
    }

    #[test]
    fn a_table_has_no_header_without_a_name() {
        let html = rendered("| a | |\n|---|---|\n| b | c |\n");
        assert!(html.contains("<th>a</th><td></td>"), "{html}");
        assert!(html.contains("tabindex=\"0\"><table>"), "{html}");
    }

    #[test]
    fn links_pictures_and_diagrams_lead_to_their_places() {
        let html = rendered(
            "[a](b.md#c) ![d](e.png) [![f](g.png)](h)\n\n```mermaid\ngraph LR\n```\n\n```mermaid\ngraph TD\n```\n",
        );
        assert!(html.contains("<a href=\"to:b.md#c\">a</a>"), "{html}");
        assert!(
            html.contains(
                "<a class=\"picture\" href=\"to:e.png\"><img src=\"to:e.png\" alt=\"d\" /></a>"
            ),
            "{html}"
        );
        assert!(
            html.contains("<a href=\"to:h\"><img src=\"to:g.png\" alt=\"f\" /></a>"),
            "{html}"
        );
        assert!(
            html.contains("<a class=\"picture\" href=\"graph.svg\"><img src=\"graph.svg\"")
                && html.contains("<code>graph LR\n</code>"),
            "{html}"
        );
        assert!(
            html.contains("<code>graph TD\n</code></pre></div>\n<figcaption>"),
            "{html}"
        );
    }
}
