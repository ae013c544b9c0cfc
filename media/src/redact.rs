//! Redaction of other processes' texts: an egress worker's error may quote a URL that contains a stream key.

/// Replaces everything after the scheme in each URL within a text.
pub(crate) fn redact_urls(text: &str) -> String {
    text.split(' ')
        .map(redact_word)
        .collect::<Vec<_>>()
        .join(" ")
}

fn redact_word(word: &str) -> String {
    // Anything before the scheme, such as a bracket or quote, stays; the rest of the word is part of the URL.
    match word.find("://") {
        Some(at) => format!("{}://…", &word[..at]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_cut_after_its_scheme_and_other_text_is_unchanged() {
        let message = "could not publish to rtmp://a.example.com/app/KEY?auth=KEY (timeout)";
        assert_eq!(
            redact_urls(message),
            "could not publish to rtmp://… (timeout)"
        );
        assert_eq!(redact_urls("the disk  is full"), "the disk  is full");
    }
}
