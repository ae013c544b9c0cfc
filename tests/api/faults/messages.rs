//! The messages of every kind of actor, as the sources name them: a message that is added is among them.

const SOURCES: [(&str, &str); 6] = [
    ("system", include_str!("../../../actors/src/system/message.rs")),
    ("project", include_str!("../../../actors/src/project/message.rs")),
    ("room", include_str!("../../../actors/src/room/message.rs")),
    ("egress", include_str!("../../../actors/src/egress/mod.rs")),
    ("ingress", include_str!("../../../actors/src/ingress/message.rs")),
    ("webhook_endpoint", include_str!("../../../actors/src/webhook_endpoint/mod.rs")),
];

/// The names of the messages of a kind.
pub fn messages_of(kind: &str) -> Vec<&'static str> {
    let (_, source) = SOURCES.iter().find(|(of, _)| *of == kind).unwrap();
    let (_, function) = source.split_once("const fn name(&self)").unwrap();
    let (function, _) = function.split_once("\n    }\n").unwrap();
    let names: Vec<_> = function.split("=> \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(names.len(), function.matches("Self::").count(), "{kind}: each message has a name");
    names
}
