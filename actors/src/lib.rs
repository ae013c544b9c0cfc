//! The living part of Conclave: who owns what state, which timer runs, who restarts whom.
//!
//! An actor owns its state alone and is spoken to by messages; what must survive a restart is in the database before
//! anybody is told. Blocking work runs beside the actors, never inside a handler.

pub mod webhook_endpoint;
