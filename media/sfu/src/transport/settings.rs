//! Settings that all connections share: certificate, codecs, header extensions.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::address::AddressFilter;
use str0m::config::{CryptoProvider, DtlsCert};
use str0m::format::PayloadParams;
use str0m::rtp::{Extension, ExtensionMap, ExtensionSerializer, ExtensionValues};
use str0m::{Candidate, RtcConfig};

use crate::adapt::{DependencyDescriptor, MAX_DESCRIPTOR};
use crate::allocate::INITIAL_BITRATE;
use crate::codec::Codec;

/// Settings that a process's transports share.
pub struct TransportSettings {
    crypto: Arc<CryptoProvider>,
    /// One certificate for all connections, because creating one costs a signature.
    certificate: Option<DtlsCert>,
    /// Addresses that are advertised to clients.
    candidates: Vec<Candidate>,
    /// Client addresses that the server may contact first.
    contactable: AddressFilter,
}

/// Header extension id of the dependency descriptor, which str0m's standard extensions leave free.
const DEPENDENCIES: u8 = 12;

/// Maximum size of a client's data message in bytes.
const MAX_MESSAGE_BYTES: u32 = 65_535;

impl TransportSettings {
    /// Creates the settings. `candidates` are the addresses that are advertised to clients. Clients in the same
    /// special-purpose networks as these may be contacted, too, so that clients and a server in one private network, or
    /// on one machine, can connect.
    pub fn new(candidates: Vec<Candidate>, contactable: &AddressFilter) -> Self {
        let crypto = Arc::new(str0m::crypto::from_feature_flags());
        let contactable =
            contactable.with_networks_of(candidates.iter().map(|candidate| candidate.addr().ip()));
        Self {
            certificate: crypto.dtls_provider.generate_certificate(),
            crypto,
            candidates,
            contactable,
        }
    }

    /// Returns the addresses that are advertised to clients.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Returns the client addresses that the server may contact first.
    pub const fn contactable(&self) -> &AddressFilter {
        &self.contactable
    }

    /// Returns the HMAC that proves knowledge of a password in a STUN message.
    pub fn stun_hmac(&self, key: &[u8], parts: &[&[u8]]) -> [u8; 20] {
        self.crypto.sha1_hmac_provider.sha1_hmac(key, parts)
    }

    /// Returns payload types and parameters of the forwarded codecs.
    pub fn codecs(&self) -> Vec<PayloadParams> {
        self.config(false).codec_config().params().to_vec()
    }

    /// Returns the configuration of a connection.
    pub fn config(&self, full_ice: bool) -> RtcConfig {
        let mut config = RtcConfig::new()
            .set_crypto_provider(self.crypto.clone())
            .set_ice_lite(!full_ice)
            // An SFU forwards RTP packets as they are, without assembling frames.
            .set_rtp_mode(true)
            .set_extension_map(extensions())
            .clear_codecs()
            .enable_bwe(Some(INITIAL_BITRATE))
            .set_sctp_max_message_size(MAX_MESSAGE_BYTES)
            // Once a second, as often as connection qualities and losses are measured.
            .set_stats_interval(Some(Duration::from_secs(1)));
        if let Some(certificate) = &self.certificate {
            config = config.set_dtls_cert(certificate.clone());
        }
        Codec::enable_all(config)
    }
}

/// Returns the header extensions. As with LiveKit, video orientation is not among them: a client without this extension
/// rotates its frames before it encodes them, so that they are upright for every receiver and in recordings.
fn extensions() -> ExtensionMap {
    let mut extensions = ExtensionMap::empty();
    let standard = ExtensionMap::standard();
    for (id, extension) in standard
        .iter()
        .filter(|(_, extension)| **extension != Extension::VideoOrientation)
    {
        extensions.set(id, extension.clone());
    }
    extensions.set(DEPENDENCIES, dependency_extension());
    extensions
}

const URI: &str =
    "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension";

/// Maximum size in bytes of an extension with a one-byte header (RFC 8285).
const MAX_SHORT: usize = 16;

/// Returns the extension for the AV1 dependency descriptor.
pub fn dependency_extension() -> Extension {
    Extension::with_serializer(URI, Serializer)
}

#[derive(Debug)]
struct Serializer;

impl ExtensionSerializer for Serializer {
    fn write_to(&self, buffer: &mut [u8], values: &ExtensionValues) -> usize {
        let Some(DependencyDescriptor(bytes)) = values.user_values.get() else {
            return 0;
        };
        let Some(space) = buffer.get_mut(..bytes.len()) else {
            return 0;
        };
        space.copy_from_slice(bytes);
        bytes.len()
    }

    fn parse_value(&self, bytes: &[u8], values: &mut ExtensionValues) -> bool {
        // Without a value, the packet counts as not layered, rather than breaking the connection.
        let is_usable = (1..=MAX_DESCRIPTOR).contains(&bytes.len());
        if is_usable {
            values.user_values.set(DependencyDescriptor(bytes.into()));
        }
        is_usable
    }

    fn is_video(&self) -> bool {
        true
    }

    fn is_audio(&self) -> bool {
        false
    }

    fn requires_two_byte_form(&self, values: &ExtensionValues) -> bool {
        values
            .user_values
            .get()
            // A key frame's descriptor contains the structure of the layers, which usually exceeds the short form.
            .is_some_and(|DependencyDescriptor(bytes)| bytes.len() > MAX_SHORT)
    }
}
