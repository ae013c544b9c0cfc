//! Texts of others that are passed on: what a worker says went wrong may quote a url, and a url may end in a stream key.

/// A text without what its urls lead to.
#[must_use]
pub(crate) fn without_urls(text: &str) -> String {
    text.split(' ').map(hidden_url).collect::<Vec<_>>().join(" ")
}

fn hidden_url(word: &str) -> String {
    match word.find("://") {
        Some(at) => format!("{}://…", &word[..at]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_cut_behind_its_scheme_and_the_rest_stays() {
        let said = "could not publish to rtmp://a.example.com/app/KEY?auth=KEY (timeout)";
        assert_eq!(without_urls(said), "could not publish to rtmp://… (timeout)");
        assert_eq!(without_urls("the disk  is full"), "the disk  is full");
    }
}
