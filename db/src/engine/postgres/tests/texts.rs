//! Every text prepares on PostgreSQL, with types that the code binds and reads, and every list follows an index.

use conclave_model::egress::{EgressKind, EgressStatus};
use conclave_model::ingress::{IngressStatus, InputType};
use conclave_model::webhook::DeliveryStatus;
use conclave_model::{EndpointId, Identity, ProjectId, RoomId, Timestamp};

use super::with_schema;
use crate::portable_sql::{sources, statements};
use crate::records::sessions::list as sessions;
use crate::records::{
    codes, deliveries, egresses, ingresses, role_changes, rooms, templates, webhook_endpoints,
};
use crate::sql::Sql;
use crate::sql::postgres::Session;
use crate::sql::query_builder::QueryBuilder;
use crate::{DeliveryFilter, EgressFilter, IngressFilter, SessionFilter};

/// Literals that are parts of texts, by their files and beginnings.
const FRAGMENTS: [(&str, &str); 6] = [
    ("records/api_keys.rs", "SELECT project_id, prefix, label"),
    ("records/egresses/rows.rs", "SELECT e.id, e.project_id"),
    (
        "records/egresses/rows.rs",
        "UPDATE egresses SET status = ?3, error = ?4",
    ),
    ("records/ingresses.rs", "UPDATE ingresses SET status = ?3"),
    ("records/rooms/rows.rs", "SELECT id, participant_identity"),
    (
        "records/templates.rs",
        "SELECT r.body, r.template_id FROM roles r",
    ),
];

#[test]
fn every_text_prepares_with_types_that_are_bound_and_read() {
    with_schema(|_, session| {
        let mut prepared = 0;
        for (file, source) in sources() {
            for text in statements(&source) {
                if FRAGMENTS
                    .iter()
                    .any(|(of, start)| file == *of && text.starts_with(start))
                {
                    continue;
                }
                session
                    .check_types(&text)
                    .unwrap_or_else(|error| panic!("{file}: {error}: {text}"));
                prepared += 1;
            }
        }
        assert!(prepared > 100, "only {prepared} texts were prepared");
    });
}

#[test]
fn a_type_that_no_record_has_is_found() {
    with_schema(|_, session| {
        for text in [
            "SELECT sum(created_at) FROM rooms",
            "SELECT 1 FROM rooms WHERE CAST(?1 AS NUMERIC) > 1",
            "SELECT FROM",
        ] {
            assert!(session.check_types(text).is_err(), "{text}");
        }
    });
}

/// Checks that a list reads an index in its order: no table is read whole, nothing is sorted.
fn check_plan(session: &Session, query: QueryBuilder<'_>) {
    let steps = query.plan(Sql::Postgres(session));
    assert!(
        !steps
            .iter()
            .any(|step| step.contains("Seq Scan") || step.contains("Sort")),
        "{steps:#?}"
    );
    assert!(
        steps.iter().any(|step| step.contains("Index")),
        "{steps:#?}"
    );
}

#[test]
fn every_list_follows_an_index() {
    with_schema(|_, session| {
        session.batch("SET enable_seqscan = off; SET enable_sort = off; SET enable_incremental_sort = off").unwrap();
        let (project, room) = (ProjectId::new(), RoomId::new());
        let identity: Identity = "ada".parse().unwrap();
        check_plan(session, rooms::list_query(&project));
        check_plan(session, rooms::open_query(&project));
        check_plan(session, rooms::named_query(&project, "a", "b"));
        check_plan(session, templates::list_query(&project));
        check_plan(session, webhook_endpoints::list_query(&project));
        check_plan(session, codes::list_query(&project, room));
        check_plan(session, role_changes::list_query(&project, room, None));
        check_plan(
            session,
            role_changes::list_query(&project, room, Some(&identity)),
        );
        each_choice(|chosen| {
            check_plan(
                session,
                deliveries::list_query(&project, &delivery_filter(&chosen)),
            );
            check_plan(
                session,
                ingresses::list_query(&project, &ingress_filter(&chosen)),
            );
            check_plan(
                session,
                egresses::list_query(&project, EgressKind::Recording, &egress_filter(&chosen)),
            );
            for active in [None, Some(false), Some(true)] {
                check_plan(
                    session,
                    sessions::list_query(&project, &session_filter(&chosen, active)),
                );
            }
        });
    });
}

/// Which of five filters are set.
type Chosen = [bool; 5];

fn each_choice(mut check: impl FnMut(Chosen)) {
    for choice in 0..1u8 << 5 {
        check(std::array::from_fn(|at| choice & (1 << at) != 0));
    }
}

fn delivery_filter(chosen: &Chosen) -> DeliveryFilter {
    DeliveryFilter {
        status: chosen[0].then_some(DeliveryStatus::Failed),
        event_type: chosen[1].then(|| "room.started".into()),
        endpoint_id: chosen[2].then(EndpointId::new),
    }
}

fn ingress_filter(chosen: &Chosen) -> IngressFilter {
    IngressFilter {
        room: chosen[0].then(|| "r".parse().unwrap()),
        status: chosen[1].then_some(IngressStatus::Inactive),
        input_type: chosen[2].then_some(InputType::Rtmp),
    }
}

fn egress_filter(chosen: &Chosen) -> EgressFilter {
    EgressFilter {
        room: chosen[0].then(|| "r".parse().unwrap()),
        status: chosen[1].then_some(EgressStatus::Active),
        after: chosen[2].then_some(Timestamp::from_millis(1)),
        before: chosen[3].then_some(Timestamp::from_millis(2)),
    }
}

fn session_filter(chosen: &Chosen, active: Option<bool>) -> SessionFilter {
    SessionFilter {
        room: chosen[0].then(|| "r".parse().unwrap()),
        identity: chosen[1].then(|| "ada".parse().unwrap()),
        role: chosen[2].then(|| "host".parse().unwrap()),
        active,
        after: chosen[3].then_some(Timestamp::from_millis(1)),
        before: chosen[4].then_some(Timestamp::from_millis(2)),
    }
}
