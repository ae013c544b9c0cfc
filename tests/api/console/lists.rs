//! Counts in lists, and the lists behind the overview's counts.

use std::fs;

use serde_json::json;

use super::Browser;
use crate::support::{Request, TestApp};

/// Returns the text of a table's row that contains `part`, without markup.
#[track_caller]
fn row(page: &str, part: &str) -> String {
    let found = page.split("<tr>").find(|row| row.contains(part));
    let row = found.unwrap_or_else(|| panic!("no row with {part}: {page}"));
    let texts = row.split('<').filter_map(|rest| rest.split_once('>'));
    let texts: Vec<_> = texts
        .map(|(_, text)| text.trim())
        .filter(|text| !text.is_empty())
        .collect();
    texts.join(" ")
}

#[test]
fn rooms_are_listed_with_their_participants() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.post("/v1/rooms")
        .json(json!({"name": "small", "max_participants": 5}))
        .send()
        .expect(201);
    app.room("standup");
    app.room("retro");
    for identity in ["alice", "bob", "carol"] {
        app.join("standup", identity, "guest");
    }
    let left = app.join("small", "dora", "guest");
    app.join("small", "erin", "guest");
    app.leave(&left, true);
    app.delete("/v1/rooms/retro").send().expect_empty(204);
    let own = format!("/projects/{}", app.project);
    for path in [own.clone(), format!("{own}?q=s"), "/live/rooms".to_owned()] {
        let page = browser.page(&path);
        assert!(page.contains("Participants</th>"), "{path}: {page}");
        assert!(
            row(&page, "/rooms/standup\"").contains(" 3 "),
            "{path}: {page}"
        );
        assert!(
            row(&page, "/rooms/small\"").contains(" 1 of 5 "),
            "{path}: {page}"
        );
    }
    assert!(!browser.page("/live/rooms").contains("/rooms/retro"));
    let found = browser.page(&format!("{own}?q=retro"));
    assert!(
        row(&found, "/rooms/retro\"").contains("ended – none"),
        "{found}"
    );
}

#[test]
fn every_room_is_on_a_page() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("retro");
    app.delete("/v1/rooms/retro").send().expect_empty(204);
    for number in 0..101 {
        app.room(&format!("open-{number}"));
        app.advance(std::time::Duration::from_millis(1));
    }
    let own = format!("/projects/{}", app.project);
    let older = [50, 100].map(|offset| browser.page(&format!("{own}?offset={offset}")));
    let pages = browser.page(&own) + &older.concat();
    for number in 0..101 {
        let link = format!("/rooms/open-{number}\"");
        assert!(pages.contains(&link), "{number}: {pages}");
    }
    assert!(older[1].contains("/rooms/retro\""), "{}", older[1]);
}

#[test]
fn every_room_code_and_ban_can_be_reached() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("standup");
    for number in 0..51 {
        app.post("/v1/rooms/standup/codes")
            .json(json!({"role": "guest", "identity": format!("user-{number}")}))
            .send()
            .expect(201);
        app.put(&format!("/ext/v1/rooms/standup/bans/troll-{number}"))
            .json(json!({}))
            .send()
            .expect(201);
        app.advance(std::time::Duration::from_millis(1));
    }
    let room = format!("/projects/{}/rooms/standup", app.project);
    let first = browser.page(&room);
    let lift = format!("action=\"{room}/bans/troll-0/lift\"");
    assert!(
        !first.contains(">user-0<") && !first.contains(&lift),
        "{first}"
    );
    for (section, oldest) in [("codes", ">user-0<"), ("bans", lift.as_str())] {
        let next = format!("{room}?{section}=50");
        assert!(
            first.contains(&format!("href=\"{next}#{section}\"")),
            "{first}"
        );
        let page = browser.page(&next);
        assert!(page.contains(oldest), "{page}");
        let back = format!("href=\"{room}?{section}=0#{section}\"");
        assert!(page.contains(&back), "{page}");
    }
}

#[test]
fn the_overview_links_to_lists_of_what_it_counts_in_all_projects() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    for path in ["/live/rooms", "/live/participants", "/live/egresses"] {
        assert!(browser.page(path).contains("class=\"empty\""), "{path}");
    }
    app.room("standup");
    app.join("standup", "alice", "host");
    let recording = app
        .post("/v1/rooms/standup/recordings")
        .json(json!({"type": "room_composite", "filepath": "talk.mp4"}))
        .send()
        .expect(201);
    app.post("/v1/rooms/standup/broadcasts")
        .json(json!({"urls": ["rtmp://127.0.0.1/app/hush-key"]}))
        .send()
        .expect(201);
    let other = browser.act(
        "/projects",
        &[("name", "shop"), ("env", "live"), ("plan", "self_hosted")],
    );
    let (_, rest) = other.split_once("/projects/prj_").unwrap();
    let other = format!("/projects/prj_{}", &rest[..12]);
    let key = super::secret(&browser.act(&format!("{other}/keys"), &[("label", "")]));
    Request::new("POST", format!("{}/v1/rooms", app.api))
        .bearer(&key)
        .json(json!({"name": "till"}))
        .send()
        .expect(201);

    let overview = browser.page("/");
    let list = |path: &str| {
        assert!(overview.contains(&format!("href=\"{path}\"")), "{overview}");
        browser.page(path)
    };
    let rooms = list("/live/rooms");
    assert!(row(&rooms, &format!("{other}/rooms/till")).contains(" shop "));
    assert!(row(&rooms, "/rooms/standup\"").contains(" 1 "), "{rooms}");
    let participants = list("/live/participants");
    assert!(row(&participants, "alice").contains(" standup "));
    let egresses = list("/live/egresses");
    let id = recording["egress_id"].as_str().unwrap();
    assert!(row(&egresses, &format!("/recordings/{id}")).contains("talk.mp4"));
    assert!(row(&egresses, "/broadcasts?room=standup").contains("REDACTED"));
    assert!(!egresses.contains("hush-key"));
    app.advance(std::time::Duration::from_secs(90));
    let projects = list("/projects");
    assert!(row(&projects, &app.project).contains(" 1.5 "), "{projects}");
    assert!(row(&projects, &other).contains(" 0.0 "), "{projects}");
}

#[test]
fn a_wallet_is_shown_where_the_plan_has_a_price_or_money_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plans.toml");
    let plan = |id: &str, price: &str| {
        format!("[{id}]\ndisplay_name = \"{id}\"\nlimits = {{}}\nfeatures = {{}}\n{price}\n")
    };
    let plans = [
        plan("self_hosted", "price_ugx = 0"),
        plan("paid", "price_ugx = 10"),
        plan("by_use", "price_ugx = 0\noverage_ugx_per_minute = 1"),
    ];
    fs::write(&file, plans.concat()).unwrap();
    let app = TestApp::start_with(|config| config.plans.file = Some(file));
    let browser = Browser::new(&app);
    let own = format!("/projects/{}", app.project);
    let is_shown = || {
        ["settings", "usage"].map(|page| browser.page(&format!("{own}/{page}")).contains("Wallet"))
    };
    let set_plan = |id: &str| browser.act(&format!("{own}/plan"), &[("plan", id)]);
    set_plan("self_hosted");
    assert_eq!(is_shown(), [false, false]);
    for priced in ["paid", "by_use"] {
        set_plan(priced);
        assert_eq!(is_shown(), [true, true], "{priced}");
    }
    browser.act(&format!("{own}/credit"), &[("ugx", "5000")]);
    set_plan("self_hosted");
    assert_eq!(is_shown(), [true, true], "money stays visible");
}
