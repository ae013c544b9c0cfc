//! `/v1/*`.

mod codes;
mod roles;
mod rooms;
mod template_settings;
mod templates;
mod tokens;
