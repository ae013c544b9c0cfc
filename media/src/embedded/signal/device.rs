//! A client's device and program, and the codecs that it sends badly.

use conclave_model::quality::ClientProgram;
use conclave_sfu::{Codec, check_description, without_sent_codecs};
use livekit_protocol as proto;
use proto::ClientInfo;
use proto::client_info::Sdk;

/// Maximum length of each text in a client's information, in characters.
const MAX_TEXT: usize = 256;

/// Maximum length of each text in the record of a client's program, in characters. There is a record per session.
const MAX_RECORDED: usize = 32;

/// A client's device and program, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    sdk: String,
    sdk_version: String,
    os: String,
    model: String,
    browser: String,
    browser_version: String,
}

impl Device {
    /// Reads a client's information about itself.
    pub fn new(client: &ClientInfo) -> Self {
        // The SDK's name is not among them: these faults belong to devices and browsers.
        let texts = [
            &client.os,
            &client.device_model,
            &client.browser,
            &client.browser_version,
        ];
        let [os, model, browser, browser_version] = texts.map(|text| lower(text));
        // As in the names that clients put into a query.
        let sdk = match client.sdk() {
            Sdk::Unknown => String::new(),
            sdk => lower(sdk.as_str_name()),
        };
        Self {
            sdk,
            sdk_version: lower(&client.version),
            os,
            model,
            browser,
            browser_version,
        }
    }

    /// Completes missing information from the request's `user-agent`: the SDK for browsers omits it.
    #[must_use]
    pub fn or_user_agent(self, user_agent: &str) -> Self {
        let text = lower(user_agent);
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        // Android first: its browsers mention Linux, too.
        let os = match () {
            () if has(&["android"]) => "android",
            () if has(&["linux"]) => "linux",
            () => "",
        };
        let browser = match () {
            () if has(&["firefox/"]) => "firefox",
            // Browsers on Chromium mention Safari, too, and so do Chrome and Edge on iOS.
            () if has(&["safari/"])
                && !has(&["chrome/", "chromium/", "crios/", "edgios/", "android"]) =>
            {
                "safari"
            }
            () => "",
        };
        let or = |said: String, seen: &str| {
            if said.is_empty() {
                seen.to_owned()
            } else {
                said
            }
        };
        // Safari states its own version here; the number after `safari/` is the engine's.
        let version = text
            .split_once("version/")
            .and_then(|(_, rest)| rest.split(' ').next())
            .unwrap_or_default();
        Self {
            os: or(self.os, os),
            browser: or(self.browser, browser),
            browser_version: or(self.browser_version, version),
            model: self.model,
            sdk: self.sdk,
            sdk_version: self.sdk_version,
        }
    }

    /// Returns the client's program, for the record of its session's quality; `None` if the client states nothing.
    pub fn program(&self) -> Option<ClientProgram> {
        let short = |text: &str| text.chars().take(MAX_RECORDED).collect::<String>();
        let browser = format!("{} {}", self.browser, self.browser_version);
        let program = ClientProgram {
            sdk: short(&self.sdk),
            version: short(&self.sdk_version),
            browser: short(browser.trim()),
            os: short(&self.os),
        };
        (program != ClientProgram::default()).then_some(program)
    }

    /// Returns the first two numbers of the browser's version.
    fn version(&self) -> (u32, u32) {
        let mut numbers = self
            .browser_version
            .split('.')
            .map(|number| number.parse().unwrap_or_default());
        (
            numbers.next().unwrap_or_default(),
            numbers.next().unwrap_or_default(),
        )
    }

    /// Returns the codecs in a list that the client may publish with.
    pub fn without_unusable(&self, mut codecs: Vec<proto::Codec>) -> Vec<proto::Codec> {
        codecs.retain(|codec| {
            // Unknown codecs stay: the list is the server's own.
            Codec::from_mime_type(&codec.mime).is_none_or(|codec| self.can_publish(codec))
        });
        codecs
    }

    /// Returns the client's offer without the codecs that it may not publish with. An offer that is too large is not
    /// changed.
    pub fn usable_offer(&self, sdp: String) -> String {
        let refused: Vec<_> = Codec::ALL
            .into_iter()
            .filter(|codec| !self.can_publish(*codec))
            .collect();
        // A media worker rejects a description that is too large. Parsing it here would only cost time.
        let is_unchanged = refused.is_empty() || check_description(&sdp).is_err();
        if is_unchanged {
            sdp
        } else {
            without_sent_codecs(&sdp, &refused)
        }
    }

    /// Returns whether the client may publish with a codec. The exceptions are LiveKit's: devices and browsers whose
    /// encoders produce video that others cannot decode.
    pub fn can_publish(&self, codec: Codec) -> bool {
        let is_on = |os: &[&str]| os.contains(&&*self.os);
        let is_firefox = matches!(&*self.browser, "firefox" | "firefox mobile");
        match codec {
            Codec::H264 => {
                // A phone model whose hardware encoder is on LiveKit's list.
                let has_faulty_encoder = self.model == "xiaomi 2201117ti" && is_on(&["android"]);
                let is_faulty_firefox = is_firefox && is_on(&["linux", "android"]);
                !has_faulty_encoder && !is_faulty_firefox
            }
            // By major, then minor version. An unknown version counts as old.
            Codec::Vp9 => self.browser != "safari" || self.version() <= LAST_SAFARI_WITH_VP9,
            Codec::Av1 => self.browser != "safari",
            _ => true,
        }
    }
}

/// Last version of Safari that sends VP9 well.
const LAST_SAFARI_WITH_VP9: (u32, u32) = (18, 3);

fn lower(text: &str) -> String {
    text.chars()
        .take(MAX_TEXT)
        .collect::<String>()
        .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(os: &str, model: &str, browser: &str) -> Device {
        let [os, device_model, browser] = [os, model, browser].map(str::to_owned);
        Device::new(&ClientInfo {
            os,
            device_model,
            browser,
            ..ClientInfo::default()
        })
    }

    #[test]
    fn a_device_whose_encoder_is_faulty_does_not_publish_with_it() {
        for (device, can_publish) in [
            (device("android", "Xiaomi 2201117TI", ""), false),
            (device("Android", "xiaomi 2201117ti", ""), false),
            (device("ios", "Xiaomi 2201117TI", ""), true),
            (device("android", "Pixel 9", ""), true),
            (device("linux", "", "Firefox"), false),
            (device("android", "", "Firefox Mobile"), false),
            (device("windows", "", "Firefox"), true),
            (Device::default(), true),
        ] {
            assert_eq!(device.can_publish(Codec::H264), can_publish, "{device:?}");
            assert!(device.can_publish(Codec::Vp8) && device.can_publish(Codec::Opus));
        }
    }

    #[test]
    fn what_a_device_does_not_send_well_is_in_no_list_and_no_offer_of_it() {
        let faulty = device("android", "Xiaomi 2201117TI", "");
        let codec = |mime: &str| proto::Codec {
            mime: mime.into(),
            ..proto::Codec::default()
        };
        let all = || vec![codec("video/VP8"), codec("video/H264"), codec("audio/opus")];
        assert_eq!(
            faulty.without_unusable(all()),
            [codec("video/VP8"), codec("audio/opus")]
        );
        assert_eq!(Device::default().without_unusable(all()), all());
        let offer = "v=0\r\nm=video 9 X 96 102\r\na=rtpmap:96 VP8/90000\r\na=rtpmap:102 H264/90000\r\na=sendonly\r\n";
        assert!(!faulty.usable_offer(offer.to_owned()).contains("102"));
        assert_eq!(Device::default().usable_offer(offer.to_owned()), offer);
    }

    #[test]
    fn safari_publishes_no_av1_and_since_18_4_no_vp9() {
        let safari = |version: &str| {
            let engine = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)";
            Device::default().or_user_agent(&format!("{engine} Version/{version} Safari/605.1.15"))
        };
        for (version, can_publish_vp9) in [
            ("17.6", true),
            ("18.3", true),
            ("18.3.1", true),
            ("18.4", false),
            ("26.0", false),
        ] {
            let device = safari(version);
            assert_eq!(device.can_publish(Codec::Vp9), can_publish_vp9, "{version}");
            assert!(!device.can_publish(Codec::Av1) && device.can_publish(Codec::H264));
        }
        assert!(Device::default().can_publish(Codec::Av1));
    }

    #[test]
    fn a_browser_without_client_information_is_known_by_its_user_agent() {
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        let phone = "Mozilla/5.0 (Android 16; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0";
        let windows =
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0";
        let chromium = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36";
        for (user_agent, can_publish) in [
            (firefox, false),
            (phone, false),
            (windows, true),
            (chromium, true),
            ("", true),
        ] {
            let device = Device::default().or_user_agent(user_agent);
            assert_eq!(device.can_publish(Codec::H264), can_publish, "{user_agent}");
        }
        let said = device("ios", "", "safari").or_user_agent(firefox);
        assert!(said.can_publish(Codec::H264), "what the client says counts");
    }
}
