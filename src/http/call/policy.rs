//! The policies of the call page.

use url::Url;

/// The devices and abilities that the page uses, as its `Permissions-Policy`. No frame inside the page gets any; a page that shows it in
/// a frame has to allow them there, as `/embed.js` does.
pub const DEVICES: &str = "camera=(self), microphone=(self), display-capture=(self), speaker-selection=(self), autoplay=(self), \
                           fullscreen=(self), clipboard-write=(self), geolocation=(), payment=(), usb=()";

/// What the browser may load, and from where: files of this server; connections to it and to the media plane. And which pages may show
/// the page in a frame: those of `embed_origins`.
pub fn policy(media_url: &str, embed_origins: &[String]) -> String {
    let media = media_origins(media_url).unwrap_or_default();
    let ancestors = if embed_origins.is_empty() {
        "'none'".to_owned()
    } else {
        embed_origins.join(" ")
    };
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' blob:; \
         connect-src 'self'{media}; base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
    )
}

/// The origin of a websocket url, for the websocket and for the requests that the client SDK makes beside it.
fn media_origins(media_url: &str) -> Option<String> {
    let url = Url::parse(media_url).ok()?;
    let (host, port) = (
        url.host_str()?,
        url.port()
            .map(|port| format!(":{port}"))
            .unwrap_or_default(),
    );
    let schemes = if url.scheme() == "wss" {
        ["wss", "https"]
    } else {
        ["ws", "http"]
    };
    Some(
        schemes
            .map(|scheme| format!(" {scheme}://{host}{port}"))
            .concat(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_may_connect_to_the_media_plane_and_nowhere_else() {
        let connects = |url: &str| {
            let policy = policy(url, &[]);
            policy
                .split("; ")
                .find_map(|part| part.strip_prefix("connect-src "))
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            connects("ws://127.0.0.1:8080"),
            "'self' ws://127.0.0.1:8080 http://127.0.0.1:8080"
        );
        assert_eq!(
            connects("wss://media.example.org/sfu"),
            "'self' wss://media.example.org https://media.example.org"
        );
        assert_eq!(
            connects("ws://[::1]:7880"),
            "'self' ws://[::1]:7880 http://[::1]:7880"
        );
    }

    #[test]
    fn only_the_given_origins_may_show_the_page_in_a_frame() {
        let ancestors = |origins: &[&str]| {
            let origins: Vec<_> = origins.iter().map(|origin| (*origin).to_owned()).collect();
            policy("ws://127.0.0.1:8080", &origins)
                .rsplit_once("frame-ancestors ")
                .unwrap()
                .1
                .to_owned()
        };
        assert_eq!(ancestors(&[]), "'none'");
        assert_eq!(
            ancestors(&["https://a.org", "http://localhost:3000"]),
            "https://a.org http://localhost:3000"
        );
    }
}
