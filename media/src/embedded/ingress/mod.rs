//! Ingress: encoders that publish into rooms.

pub mod encoder;
pub mod encoder_activity;
pub mod encoder_refusal;
pub mod endpoints;
pub mod rtmp;
pub mod stream_key_rates;
pub mod transcoding;
pub mod whip;
