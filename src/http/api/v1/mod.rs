//! The operations of the API: their table ([`operations`]), and a file for each resource with its wire types, its operations and its
//! handlers.
//!
//! Their paths are in one tree, in which a request costs one lookup ([`find_route`]). As resources of actix, each path would be a regular
//! expression, which every worker compiles, and a request would try one after the other.

pub(in crate::http) mod broadcasts;
pub(in crate::http) mod codes;
pub(in crate::http) mod destinations;
pub(in crate::http) mod egress;
pub(in crate::http) mod ingress;
pub(in crate::http) mod participants;
pub(in crate::http) mod recordings;
pub(in crate::http) mod roles;
pub(in crate::http) mod rooms;
pub(in crate::http) mod sessions;
pub(in crate::http) mod templates;
pub(in crate::http) mod tokens;
pub(in crate::http) mod usage;
pub(in crate::http) mod webhooks;

use std::sync::LazyLock;

use matchit::Router;

use super::operation::Operation;

static OPERATIONS: LazyLock<Vec<Box<dyn Operation>>> = LazyLock::new(|| {
    [
        rooms::operations(),
        participants::operations(),
        tokens::operations(),
        templates::operations(),
        roles::operations(),
        destinations::operations(),
        codes::operations(),
        recordings::operations(),
        broadcasts::operations(),
        ingress::operations(),
        sessions::operations(),
        webhooks::operations(),
        usage::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
});

/// Every operation, in the order of the OpenAPI description.
pub fn operations() -> &'static [Box<dyn Operation>] {
    &OPERATIONS
}

/// What all paths of operations begin with.
pub const PREFIX: &str = "/v1";

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
            Some(route) => route.operations.push(&**operation),
            None => routes.push(Route {
                path,
                operations: vec![&**operation],
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
            assert!(path.starts_with(&format!("{PREFIX}/")), "{path}");
        }
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
