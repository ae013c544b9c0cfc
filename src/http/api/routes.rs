//! The API's parts, and the path tree.
//!
//! All paths are in one tree, so routing costs one lookup ([`find_route`]). As actix resources, each path would be a regular
//! expression that every worker compiles, and a request would try them one after another.

use std::sync::LazyLock;

use matchit::Router;

use super::operation::Operation;
use super::{ext, v1};

/// Operations below one prefix, with an OpenAPI description of their own. Credentials, errors, paging, idempotency and rates are the
/// same in all parts.
pub struct ApiPart {
    /// Path prefix.
    pub prefix: &'static str,
    /// The description's path.
    pub description: &'static str,
    /// The description's title.
    pub title: &'static str,
    /// The description's text (`info.description`).
    pub about: &'static str,
    /// Whether the description lists the webhook events.
    pub has_events: bool,
    operations: fn() -> &'static [Box<dyn Operation>],
}

/// Operations in the contract.
pub static CONTRACT: ApiPart = ApiPart {
    prefix: "/v1",
    description: "/openapi.json",
    title: "Conclave",
    // Codes that the frame returns for any operation are listed here, instead of 54 times.
    about: "Control plane for real-time video calls. Every error has the same envelope; branch on `code`. \
        Besides the codes listed with an operation, any operation can return 403 `origin_rejected` (a browser call from another \
        origin), 408 `request_timeout`, 413 `payload_too_large`, 415 `unsupported_media_type` and 503 `database_unavailable`.",
    has_events: true,
    operations: v1::operations,
};

/// Operations beyond the contract.
pub static EXTENSIONS: ApiPart = ApiPart {
    prefix: "/ext/v1",
    description: "/ext/openapi.json",
    title: "Conclave extensions",
    about: "Operations beyond the contract. Credentials, errors, paging, idempotency and rates are the same as for the operations below \
        `/v1`, which `/openapi.json` describes.",
    // Events belong to the contract, which describes them once.
    has_events: false,
    operations: ext::operations,
};

/// All parts. The contract comes first.
pub static PARTS: [&ApiPart; 2] = [&CONTRACT, &EXTENSIONS];

impl ApiPart {
    /// Returns whether the part is the contract.
    pub fn is_contract(&self) -> bool {
        self.prefix == CONTRACT.prefix
    }

    /// Returns the operations, in the description's order.
    pub fn operations(&self) -> &'static [Box<dyn Operation>] {
        (self.operations)()
    }
}

/// Iterates over all parts' operations.
pub fn operations() -> impl Iterator<Item = &'static dyn Operation> {
    PARTS
        .into_iter()
        .flat_map(|part| part.operations().iter().map(|operation| &**operation))
}

/// Path with its operations.
pub struct Route {
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// One operation per method, in the OpenAPI description's order.
    pub operations: Vec<&'static dyn Operation>,
}

impl Route {
    /// Returns the operation for a method, given in upper case as in a request line.
    // Apart from the path: an unknown path is a 404, another method a 405 with `Allow`.
    pub fn operation(&self, method: &str) -> Option<&'static dyn Operation> {
        let has_method = |operation: &&&dyn Operation| operation.spec().method.as_str() == method;
        self.operations.iter().find(has_method).copied()
    }

    /// Returns whether a path parameter is a secret, which logs must not show.
    pub fn is_secret(&self) -> bool {
        self.operations
            .iter()
            .any(|operation| operation.spec().secret_parameter().is_some())
    }
}

static ROUTES: LazyLock<Router<Route>> = LazyLock::new(|| {
    // A linear search is enough: the tree is built once, from a few dozen paths.
    let mut routes: Vec<Route> = Vec::new();
    for operation in operations() {
        // Operations are unique by path and method; a path alone repeats.
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
        // `insert` fails if two paths differ only in a parameter's name. `each_operation_is_found_by_its_path_and_method` finds such a
        // path before a release, so a running server logs it and serves the other paths.
        if let Err(error) = tree.insert(path, route) {
            log::error!("no request reaches {path}: {error}");
        }
    }
    tree
});

/// Returns the route for a path. Each parameter matches exactly one non-empty segment.
pub fn find_route(path: &str) -> Option<&'static Route> {
    // Matched before decoding, because `%2F` would split a parameter.
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
