//! Faults at named points, which only test builds have: the effect on clients, the recovery, and that nothing is lost or duplicated.

mod actors;
mod database;
mod messages;
mod outages;
mod receivers;
mod stored_responses;
mod world;
mod writer;
