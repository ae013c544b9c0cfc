//! The files of the call page, as parts of the program.

/// The HTML of `/call`, which loads the other files.
pub const PAGE: &str = include_str!("page/page.html");
/// The script that defines `<conclave-call>` in other pages.
pub const EMBED: &str = include_str!("embed.js");

/// A file below `/call/` that is in a folder beside this module.
macro_rules! file {
    ($folder:literal, $name:literal) => {
        ($name, include_str!(concat!($folder, "/", $name)))
    };
}

/// The files that the page loads: name, content.
pub const FILES: [(&str, &str); 28] = [
    file!("page", "page.css"),
    file!("page", "lobby.css"),
    file!("page", "call.css"),
    file!("page", "main.js"),
    file!("page", "call.js"),
    file!("page", "chat.js"),
    file!("page", "colors.js"),
    file!("page", "controls.js"),
    file!("page", "devices.js"),
    file!("page", "dialogs.js"),
    file!("page", "dom.js"),
    file!("page", "hands.js"),
    file!("page", "icons.js"),
    file!("page", "links.js"),
    file!("page", "lobby.js"),
    file!("page", "memory.js"),
    file!("page", "moderation.js"),
    file!("page", "names.js"),
    file!("page", "notices.js"),
    file!("page", "parent.js"),
    file!("page", "server.js"),
    file!("page", "stage.js"),
    file!("page", "texts.js"),
    file!("page", "tile.js"),
    file!("vendor", "livekit-client.umd.js"),
    file!("page", "en.json"),
    file!("page", "fr.json"),
    file!("page", "sw.json"),
];
