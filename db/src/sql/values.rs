//! Conversion between model types and SQL parameters and columns.
//!
//! Ids and other parsed texts are TEXT, row ids are UUIDs, instants are milliseconds since the epoch, and booleans are integers.

use conclave_model::code::{RoomCodeHash, RoomCodePrefix};
use conclave_model::destination::DestinationKind;
use conclave_model::egress::{EgressKind, EgressStatus, RecordingType};
use conclave_model::filepath::FilePath;
use conclave_model::ingress::{IngressStatus, InputType, StreamKeyHash};
use conclave_model::key::{ApiKeyHash, ApiKeyPrefix};
use conclave_model::participant::{ParticipantKind, TrackKind, TrackSource};
use conclave_model::project::{Environment, ProjectStatus};
use conclave_model::quality::QualitySample;
use conclave_model::room::RoomStatus;
use conclave_model::template::Region;
use conclave_model::webhook::DeliveryStatus;
use conclave_model::{
    BanId, CodeId, DeliveryId, DestinationId, DestinationName, EgressId, EgressRowId, EndpointId,
    Identity, IngressId, IngressRowId, NodeId, ParticipantSid, ProjectId, RevocationId,
    RoleChangeId, RoleName, RoomId, RoomName, SessionId, TemplateId, TemplateName, Timestamp,
    TrackSid,
};
use uuid::Uuid;

/// Engine value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Uuid(Uuid),
}

/// Type that can be read from a column.
pub(crate) trait Column: Sized {
    /// Reads a value; `None` if it is not of this type.
    fn read(value: Value<'_>) -> Option<Self>;
}

/// Arguments of a statement, in order of their numbers.
macro_rules! args {
    ($($value:expr),* $(,)?) => { &[$($crate::sql::values::Value::from($value)),*] };
}
pub(crate) use args;

impl<'a> Value<'a> {
    pub(crate) fn text(self) -> Option<&'a str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    fn integer(self) -> Option<i64> {
        if let Self::Integer(number) = self {
            Some(number)
        } else {
            None
        }
    }

    fn bytes(self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self {
            Some(bytes)
        } else {
            None
        }
    }
}

impl<'a, T> From<Option<T>> for Value<'a>
where
    Self: From<T>,
{
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Self::from)
    }
}

impl<T: Column> Column for Option<T> {
    fn read(value: Value<'_>) -> Option<Self> {
        // Only an `Option` accepts NULL. Every other type refuses it.
        if matches!(value, Value::Null) {
            Some(None)
        } else {
            T::read(value).map(Some)
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl Column for String {
    fn read(value: Value<'_>) -> Option<Self> {
        value.text().map(Into::into)
    }
}

impl Column for Box<str> {
    fn read(value: Value<'_>) -> Option<Self> {
        value.text().map(Into::into)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Value<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

impl Column for Vec<u8> {
    fn read(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Uuid(uuid) => Some(uuid.into()),
            _ => value.bytes().map(Into::into),
        }
    }
}

impl<const N: usize> Column for [u8; N] {
    fn read(value: Value<'_>) -> Option<Self> {
        value.bytes()?.try_into().ok()
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        // As 0 or 1 on both engines.
        Self::Integer(value.into())
    }
}

impl Column for bool {
    fn read(value: Value<'_>) -> Option<Self> {
        // SQLite has no booleans, and PostgreSQL's are read as integers.
        value.integer().map(|number| number != 0)
    }
}

impl Column for QualitySample {
    fn read(value: Value<'_>) -> Option<Self> {
        Self::decode(value.bytes()?)
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(instant: Timestamp) -> Self {
        Self::Integer(instant.millis())
    }
}

impl Column for Timestamp {
    fn read(value: Value<'_>) -> Option<Self> {
        value.integer().map(Self::from_millis)
    }
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl From<$type> for Value<'_> {
            fn from(number: $type) -> Self {
                Self::Integer(number.into())
            }
        }

        impl Column for $type {
            fn read(value: Value<'_>) -> Option<Self> {
                // A number out of range is an error for the caller, and no wrong value.
                value.integer()?.try_into().ok()
            }
        }
    )* };
}

macro_rules! texts {
    ($($type:ty),* $(,)?) => { $(
        impl<'a> From<&'a $type> for Value<'a> {
            fn from(value: &'a $type) -> Self {
                Self::Text(value.as_str())
            }
        }

        impl Column for $type {
            fn read(value: Value<'_>) -> Option<Self> {
                // Parsed again: a row that was changed by hand must not become an invalid id.
                value.text()?.parse().ok()
            }
        }
    )* };
}

impl<'a> From<&'a Identity> for Value<'a> {
    fn from(value: &'a Identity) -> Self {
        Self::Text(value.as_str())
    }
}

impl Column for Identity {
    fn read(value: Value<'_>) -> Option<Self> {
        // Less strict than a request: records may have identities that earlier versions accepted.
        Self::from_record(value.text()?)
    }
}

macro_rules! uuids {
    ($($type:ident),* $(,)?) => { $(
        impl From<$type> for Value<'_> {
            fn from(id: $type) -> Self {
                Self::Uuid(id.0)
            }
        }

        impl Column for $type {
            fn read(value: Value<'_>) -> Option<Self> {
                Uuid::read(value).map(Self)
            }
        }
    )* };
}

impl From<Uuid> for Value<'_> {
    fn from(uuid: Uuid) -> Self {
        Self::Uuid(uuid)
    }
}

impl Column for Uuid {
    fn read(value: Value<'_>) -> Option<Self> {
        match value {
            // PostgreSQL has a type for UUIDs, SQLite stores their bytes.
            Value::Uuid(uuid) => Some(uuid),
            Value::Bytes(bytes) => Self::from_slice(bytes).ok(),
            _ => None,
        }
    }
}

macro_rules! hashes {
    ($($type:ident),*) => { $(
        impl<'a> From<&'a $type> for Value<'a> {
            fn from(hash: &'a $type) -> Self {
                Self::Bytes(&hash.0)
            }
        }

        impl Column for $type {
            fn read(value: Value<'_>) -> Option<Self> {
                Column::read(value).map(Self)
            }
        }
    )* };
}

macro_rules! words {
    ($($type:ty: $read:expr),* $(,)?) => { $(
        impl From<$type> for Value<'_> {
            fn from(word: $type) -> Self {
                Self::Text(word.as_str())
            }
        }

        impl Column for $type {
            fn read(value: Value<'_>) -> Option<Self> {
                let read: fn(&str) -> Option<Self> = $read;
                value.text().and_then(read)
            }
        }
    )* };
}

integers!(i64, u32, u16);
texts!(
    ApiKeyPrefix,
    DestinationId,
    DestinationName,
    EgressId,
    FilePath,
    IngressId,
    NodeId,
    ParticipantSid,
    ProjectId,
    RoleName,
    RoomCodePrefix,
    RoomName,
    TemplateId,
    TemplateName,
    TrackSid,
);
uuids!(
    BanId,
    CodeId,
    DeliveryId,
    EndpointId,
    IngressRowId,
    EgressRowId,
    RevocationId,
    RoleChangeId,
    RoomId,
    SessionId
);
hashes!(ApiKeyHash, RoomCodeHash, StreamKeyHash);
words!(
    DeliveryStatus: |word| word.parse().ok(),
    DestinationKind: |word| word.parse().ok(),
    Environment: |word| word.parse().ok(),
    IngressStatus: |word| word.parse().ok(),
    InputType: |word| word.parse().ok(),
    EgressKind: |word| word.parse().ok(),
    EgressStatus: |word| word.parse().ok(),
    // Any word is accepted, since a media plane may have kinds that this version does not know.
    ParticipantKind: |word| Some(Self::from(word)),
    ProjectStatus: |word| word.parse().ok(),
    RecordingType: |word| word.parse().ok(),
    Region: |word| word.parse().ok(),
    RoomStatus: |word| [Self::Open, Self::Ended].into_iter().find(|status| status.as_str() == word),
    TrackKind: |word| word.parse().ok(),
    TrackSource: |word| word.parse().ok(),
);
