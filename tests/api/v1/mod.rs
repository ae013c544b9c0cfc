//! `/v1/*`.

mod roles;
mod rooms;
mod template_settings;
mod templates;
mod tokens;
