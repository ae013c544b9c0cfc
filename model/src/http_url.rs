//! The description of http urls that a caller names: receivers of webhooks, object storages.

use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An absolute http or https url in the description. Hosts are checked where the url is used.
pub struct HttpUrl;

impl PartialSchema for HttpUrl {
    fn schema() -> RefOr<Schema> {
        let doc = "An absolute http or https url without user name and password.";
        let pattern = concat!(
            r"^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@\\\s\u0000-\u001f\u007f-\u009f]+",
            r"([/?#][^\\\s\u0000-\u001f\u007f-\u009f]*)?$"
        );
        crate::schema::string(doc).pattern(Some(pattern)).into()
    }
}

impl ToSchema for HttpUrl {}
