//! Faults at named points, which only tests have: what clients see, what recovers, and that nothing is lost or doubled.

mod actors;
mod database;
mod messages;
mod outages;
mod receivers;
mod stored_responses;
mod world;
mod writer;
