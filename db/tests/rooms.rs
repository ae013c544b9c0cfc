//! Lists of rooms, which are equal on both engines.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use conclave_db::{NewRoom, NewTemplate, RoomFilter, Store};
use conclave_model::bounded::MaxDuration;
use conclave_model::page::PageRequest;
use conclave_model::template::Region;
use conclave_model::{ProjectId, TemplateId};
use support::{Home, clock, create_project, create_room, new_room};

fn open(home: &Home) -> Store {
    support::open(home, None, &clock(), Box::new(|_| {}))
}

async fn create_template(store: &Store, project: &ProjectId, name: &str) -> TemplateId {
    let new = NewTemplate {
        project_id: project.clone(),
        name: name.parse().unwrap(),
        region: Region::Auto,
        auto_record: None,
        max_duration: MaxDuration::known(0),
        roles: [].into(),
    };
    store.templates().create(new, None).await.unwrap().id
}

#[actix::test]
async fn a_room_reads_as_it_was_written_and_a_page_says_whether_another_follows() {
    let home = Home::new();
    let store = open(&home);
    let project = create_project(&store).await;
    for name in ["a", "b", "c"] {
        let new = NewRoom {
            metadata: Some(r#"{"topic": 1}"#.into()),
            ..new_room(&project, name)
        };
        let created = create_room(&store, new, None).await.unwrap();
        assert_eq!(
            store
                .rooms()
                .get(project.clone(), created.name.clone())
                .await
                .unwrap(),
            created
        );
    }
    let page = async |limit, offset| {
        let page = store
            .rooms()
            .list(
                project.clone(),
                RoomFilter::default(),
                PageRequest { limit, offset },
            )
            .await
            .unwrap();
        (
            page.items
                .iter()
                .map(|room| room.name.to_string())
                .collect::<Vec<_>>()
                .concat(),
            page.has_more,
        )
    };
    assert_eq!(page(2, 0).await, ("cb".to_owned(), true));
    assert_eq!(page(2, 1).await, ("ba".to_owned(), false));
    assert_eq!(page(3, 0).await, ("cba".to_owned(), false));
}

#[actix::test]
async fn open_rooms_are_listed_by_template_and_then_newest_first_and_those_without_a_template_last()
{
    let home = Home::new();
    let store = open(&home);
    let project = create_project(&store).await;
    let mut templates = [
        create_template(&store, &project, "one").await,
        create_template(&store, &project, "two").await,
    ];
    templates.sort_unstable();
    let [first, second] = templates.map(Some);
    let created = [
        ("a", &None),
        ("b", &first),
        ("c", &second),
        ("d", &None),
        ("e", &second),
        ("f", &first),
    ];
    for (name, template) in created {
        let new = NewRoom {
            template_id: template.clone(),
            ..new_room(&project, name)
        };
        create_room(&store, new, None).await.unwrap();
    }
    let ended = create_room(&store, new_room(&project, "g"), None)
        .await
        .unwrap();
    store.rooms().end(project.clone(), ended.id).await.unwrap();
    let mut listed = String::new();
    // Page by page, so that the pages have the same order.
    for offset in 0..6 {
        let page = store
            .rooms()
            .list_open(project.clone(), PageRequest { limit: 1, offset })
            .await
            .unwrap();
        assert_eq!((page.items.len(), page.has_more), (1, offset < 5));
        listed.push_str(page.items[0].name.as_str());
    }
    assert_eq!(listed, "ecfbda");
}
