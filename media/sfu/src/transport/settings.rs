//! What all connections share: certificate, codecs, header extensions.

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

/// What every transport of a process shares.
pub struct TransportSettings {
    crypto: Arc<CryptoProvider>,
    /// One certificate for all connections, since each costs a signature to make.
    certificate: Option<DtlsCert>,
    /// The addresses that are advertised to clients.
    candidates: Vec<Candidate>,
    /// The addresses of clients that the server may contact first.
    contactable: AddressFilter,
}

/// The id of the dependency descriptor, which the standard extensions leave free.
const DEPENDENCIES: u8 = 12;

/// The largest data message that clients may send, in bytes.
const MAX_MESSAGE_BYTES: u32 = 65_535;

impl TransportSettings {
    /// Makes the shared settings; the candidates are the addresses that are advertised to clients. Clients in the same special
    /// networks as these may be contacted too: so clients and a server of a private network, or of one machine, work.
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

    /// Returns the addresses of clients that the server may contact first.
    pub const fn contactable(&self) -> &AddressFilter {
        &self.contactable
    }

    /// Returns the code that proves the knowledge of a password in a STUN message.
    pub fn stun_hmac(&self, key: &[u8], parts: &[&[u8]]) -> [u8; 20] {
        self.crypto.sha1_hmac_provider.sha1_hmac(key, parts)
    }

    /// Returns the payload types and parameters of the codecs that are forwarded.
    pub fn codecs(&self) -> Vec<PayloadParams> {
        self.config(false).codec_config().params().to_vec()
    }

    /// Returns the configuration of a connection.
    pub fn config(&self, full_ice: bool) -> RtcConfig {
        let mut config = RtcConfig::new()
            .set_crypto_provider(self.crypto.clone())
            .set_ice_lite(!full_ice)
            .set_rtp_mode(true)
            .set_extension_map(extensions())
            .clear_codecs()
            .enable_bwe(Some(INITIAL_BITRATE))
            .set_sctp_max_message_size(MAX_MESSAGE_BYTES)
            .set_stats_interval(Some(Duration::from_secs(1)));
        if let Some(certificate) = &self.certificate {
            config = config.set_dtls_cert(certificate.clone());
        }
        Codec::enable_all(config)
    }
}

/// Returns the header extensions. The orientation of video is none of them, as with LiveKit: a client that may not send it rotates its
/// pictures before it encodes them, so that they are upright for every receiver and in recordings, and whatever shows them.
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

/// The most bytes of an extension behind a header of one byte.
const MAX_SHORT: usize = 16;

/// Returns the extension.
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
            .is_some_and(|DependencyDescriptor(bytes)| bytes.len() > MAX_SHORT)
    }
}
