//! The parts of the API, and the tree of their paths.
//!
//! All paths are in one tree, in which a request costs one lookup ([`find_route`]). As resources of actix, each path would be a regular
//! expression, which every worker compiles, and a request would try one after the other.

use std::sync::LazyLock;

use matchit::Router;

use super::operation::Operation;
use super::{ext, v1};

/// A part of the API: operations below one prefix, with an OpenAPI description of their own. Credentials, errors, paging, idempotency
/// and rates are the same in all parts.
pub struct Part {
    /// Prefix of its operations' paths.
    pub prefix: &'static str,
    /// Path of its description.
    pub description: &'static str,
    /// The description's title.
    pub title: &'static str,
    /// The description's text.
    pub about: &'static str,
    /// Whether the description lists the events of webhooks.
    pub has_events: bool,
    operations: fn() -> &'static [Box<dyn Operation>],
}

/// The operations of the contract.
pub static CONTRACT: Part = Part {
    prefix: "/v1",
    description: "/openapi.json",
    title: "Conclave",
    about: "Control plane for real-time video calls. Every failure has one envelope; branch on `code`. \
        Besides the codes listed with an operation, any can answer 403 `origin_rejected` (a browser call from another \
        origin), 408 `request_timeout`, 413 `payload_too_large`, 415 `unsupported_media_type` and 503 `database_unavailable`.",
    has_events: true,
    operations: v1::operations,
};

/// The operations beyond the contract.
pub static EXTENSIONS: Part = Part {
    prefix: "/ext/v1",
    description: "/ext/openapi.json",
    title: "Conclave extensions",
    about: "Operations beyond the contract. Credentials, errors, pages, idempotency and rates are those of the operations below `/v1`, \
        which `/openapi.json` describes.",
    has_events: false,
    operations: ext::operations,
};

/// All parts, the contract first.
pub static PARTS: [&Part; 2] = [&CONTRACT, &EXTENSIONS];

impl Part {
    /// Its operations, in the order of the description.
    pub fn operations(&self) -> &'static [Box<dyn Operation>] {
        (self.operations)()
    }
}

/// Every operation of every part.
pub fn operations() -> impl Iterator<Item = &'static dyn Operation> {
    PARTS
        .into_iter()
        .flat_map(|part| part.operations().iter().map(|operation| &**operation))
}

/// A path, with its operations.
pub struct Route {
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// Its operations, one for each method, in the order of the OpenAPI description.
    pub operations: Vec<&'static dyn Operation>,
}

impl Route {
    /// The operation of a method, as it stands in a request line.
    pub fn operation(&self, method: &str) -> Option<&'static dyn Operation> {
        let of_method = |operation: &&&dyn Operation| operation.spec().method.as_str() == method;
        self.operations.iter().find(of_method).copied()
    }

    /// Whether the path holds a secret.
    pub fn is_secret(&self) -> bool {
        self.operations
            .iter()
            .any(|operation| operation.spec().secret_parameter().is_some())
    }
}

static ROUTES: LazyLock<Router<Route>> = LazyLock::new(|| {
    let mut routes: Vec<Route> = Vec::new();
    for operation in operations() {
        let path = operation.spec().path;
        match routes.iter_mut().find(|route| route.path == path) {
            Some(route) => route.operations.push(operation),
            None => routes.push(Route {
                path,
                operations: vec![operation],
            }),
        }
    }
    let mut tree = Router::new();
    for route in routes {
        let path = route.path;
        if let Err(error) = tree.insert(path, route) {
            log::error!("no request reaches {path}: {error}");
        }
    }
    tree
});

/// Returns the route of a path, whose parameters are one segment each and not empty.
pub fn find_route(path: &str) -> Option<&'static Route> {
    ROUTES.at(path).ok().map(|found| found.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_found_by_its_path_and_method() {
        for operation in operations() {
            let spec = operation.spec();
            let path = spec.path.replace(['{', '}'], "");
            let found = find_route(&path).and_then(|route| route.operation(spec.method.as_str()));
            assert_eq!(found.map(|found| found.spec().id), Some(spec.id));
        }
    }

    #[test]
    fn the_paths_of_a_part_have_its_prefix() {
        for part in PARTS {
            for operation in part.operations() {
                let path = operation.spec().path;
                assert!(path.starts_with(&format!("{}/", part.prefix)), "{path}");
            }
        }
    }

    #[test]
    fn no_two_operations_have_one_id() {
        let mut ids: Vec<_> = operations().map(|operation| operation.spec().id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    }

    #[test]
    fn a_parameter_is_one_segment() {
        let path = |path| find_route(path).map(|route| route.path);
        let expected = Some("/v1/rooms/{name}/codes");
        assert_eq!(path("/v1/rooms/a%2Fb/codes"), expected);
        for other in [
            "/v1/rooms//codes",
            "/v1/rooms/a/b/codes",
            "/v1/rooms/a/codes/",
            "/v1/rooms/",
            "/v1",
            "v1/rooms/a/codes",
        ] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
