//! Paths in code, read from tokens, so that macro calls count too.

use std::iter::Peekable;

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree, token_stream};

/// A path in the code, such as `super::room::Room`.
pub struct Mention {
    pub path: Vec<String>,
    /// The line in the module's file, from 1.
    pub line: usize,
}

impl Mention {
    pub fn new(path: Vec<String>, span: Span) -> Self {
        Self {
            path,
            line: span.start().line,
        }
    }
}

/// Adds every path in `tokens`, except code under `#[cfg(test)]`.
pub fn mentions(tokens: TokenStream, found: &mut Vec<Mention>) {
    let mut tokens = tokens.into_iter().peekable();
    // A name behind `.` is a field or method, and a name behind `::` belongs to a type that was written in full.
    let mut is_member = false;
    while let Some(token) = tokens.next() {
        skip_test_only(&token, &mut tokens);
        let was_member = std::mem::take(&mut is_member);
        match token {
            TokenTree::Ident(first) if !was_member => {
                path(vec![first.to_string()], first.span(), &mut tokens, found);
            }
            TokenTree::Group(group) => mentions(group.stream(), found),
            TokenTree::Punct(punct) if punct.as_char() == '.' => is_member = true,
            TokenTree::Punct(punct)
                if punct.as_char() == ':' && punct.spacing() == Spacing::Joint =>
            {
                tokens.next();
                is_member = true;
            }
            _ => {}
        }
    }
}

type Tokens = Peekable<token_stream::IntoIter>;

/// Reads the rest of a path after its first name, through the groups in a `use` inside a function.
fn path(mut path: Vec<String>, span: Span, tokens: &mut Tokens, found: &mut Vec<Mention>) {
    while takes_separator(tokens) {
        match tokens.peek() {
            Some(TokenTree::Ident(next)) => path.push(next.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let mut inner = group.stream().into_iter().peekable();
                while let Some(token) = inner.next() {
                    if let TokenTree::Ident(name) = token {
                        let longer = [path.as_slice(), &[name.to_string()]].concat();
                        self::path(longer, name.span(), &mut inner, found);
                    }
                }
            }
            _ => break,
        }
        tokens.next();
    }
    found.push(Mention::new(path, span));
}

/// Consumes `::` if it comes next.
fn takes_separator(tokens: &mut Tokens) -> bool {
    let mut ahead = tokens.clone();
    let colons = [ahead.next(), ahead.next()];
    let is_separator = colons
        .iter()
        .all(|token| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':'));
    if is_separator {
        *tokens = ahead;
    }
    is_separator
}

/// Skips a function, field or statement behind its `#[cfg(test)]`.
fn skip_test_only(token: &TokenTree, tokens: &mut Tokens) {
    let is_attribute = matches!(token, TokenTree::Punct(punct) if punct.as_char() == '#');
    let is_test_only = |token: &TokenTree| token.to_string() == "[cfg (test)]";
    if is_attribute && tokens.peek().is_some_and(is_test_only) {
        for token in tokens.by_ref() {
            if ends_item(&token) {
                return;
            }
        }
    }
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => [';', ','].contains(&punct.as_char()),
        _ => false,
    }
}
