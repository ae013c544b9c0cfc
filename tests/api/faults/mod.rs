//! Faults at named points, which only test builds have: their effect on clients, and the recovery without lost or duplicate records.

mod actors;
mod database;
mod messages;
mod outages;
mod receivers;
mod stored_responses;
mod world;
mod writer;
