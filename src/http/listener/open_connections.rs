//! The open connections of a listener's worker, of which one gives way to a new one where there are as many as may be.
//!
//! Who may connect can open all connections of a small listener and do nothing with them. So the one that is closed has kept the
//! server waiting for the longest, and is of the client with the most connections: others lose none, and who sends a request at once
//! is answered, also at the address of the one who has them all, such as this machine's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use super::activity::Activity;
use conclave_model::ClientAddress;

/// Shared by the connections of a worker.
#[derive(Clone, Default)]
pub struct OpenConnections(Rc<RefCell<HashMap<ClientAddress, Vec<Weak<Activity>>>>>);

impl OpenConnections {
    /// Adds a connection, until it is gone.
    pub fn add(&self, client: ClientAddress, activity: &Rc<Activity>) {
        let mut open = self.0.borrow_mut();
        open.retain(|_, of_client| {
            of_client.retain(|activity| activity.strong_count() > 0);
            !of_client.is_empty()
        });
        open.entry(client)
            .or_default()
            .push(Rc::downgrade(activity));
    }

    /// Closes a connection of which no request is being handled. Returns whether there is one.
    pub fn close_one(&self) -> bool {
        let open = self.0.borrow();
        let longest_waiting = |of_client: &Vec<Weak<Activity>>| {
            let waiting = of_client
                .iter()
                .filter_map(Weak::upgrade)
                .filter_map(|one| Some((one.waiting_since()?, one)));
            waiting
                .min_by_key(|(since, _)| *since)
                .map(|(_, activity)| (of_client.len(), activity))
        };
        let found = open
            .values()
            .filter_map(longest_waiting)
            .max_by_key(|(connections, _)| *connections);
        found.inspect(|(_, activity)| activity.close()).is_some()
    }
}
