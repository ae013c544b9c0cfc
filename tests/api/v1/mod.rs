//! `/v1/*`.

mod code_exchange;
mod codes;
mod roles;
mod rooms;
mod template_settings;
mod templates;
mod tokens;
