//! `server.json` in the data directory: the addresses by which local commands reach a running server. A server writes it when it is ready,
//! and removes it when it stops. After a crash it stays until the next start.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use conclave_db::private_file;
use conclave_model::ProjectId;
use serde::{Deserialize, Serialize};

/// A server's addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerAddresses {
    /// URL by which clients reach the API.
    pub api: String,
    /// URL of the admin listener, at an address of this machine.
    pub admin: String,
    /// A development server's project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
}

impl ServerAddresses {
    pub(super) fn new(api: &str, admin: SocketAddr, project_id: Option<&ProjectId>) -> Self {
        Self {
            api: api.to_owned(),
            admin: admin_url(admin),
            project_id: project_id.cloned(),
        }
    }

    /// Reads the addresses of the server that uses a data directory; `None` if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(data: &Path) -> io::Result<Option<Self>> {
        match fs::read_to_string(path(data)) {
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(io::Error::from),
            // No server has run here, or the last one has stopped.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the URL by which this machine reaches an admin listener at `address`.
pub(crate) fn admin_url(address: SocketAddr) -> String {
    // Connecting to an unspecified address works on Linux, but not on every system.
    let reachable = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(reachable, address.port()))
}

fn path(data: &Path) -> PathBuf {
    data.join("server.json")
}

/// A running server's file. Dropping this removes the file.
#[derive(Debug)]
pub(super) struct AddressFile(PathBuf);

impl AddressFile {
    /// Writes the file. The caller has to hold the data directory's lock.
    pub(super) fn write(data: &Path, addresses: &ServerAddresses) -> io::Result<Self> {
        let path = path(data);
        // Readable by the owner only.
        private_file::write(&path, &format!("{}\n", serde_json::to_string(addresses)?))?;
        Ok(Self(path))
    }
}

impl Drop for AddressFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            log::warn!("{} cannot be removed: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_in_the_directory_while_the_server_runs() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(ServerAddresses::read(data.path()).unwrap(), None);
        let of =
            |admin: &str| ServerAddresses::new("http://127.0.0.1:1", admin.parse().unwrap(), None);
        let file = AddressFile::write(data.path(), &of("127.0.0.1:2")).unwrap();
        assert_eq!(
            ServerAddresses::read(data.path()).unwrap(),
            Some(of("127.0.0.1:2"))
        );
        drop(file);
        assert_eq!(ServerAddresses::read(data.path()).unwrap(), None);
        assert_eq!(
            (of("0.0.0.0:2").admin.as_str(), of("[::]:2").admin.as_str()),
            ("http://127.0.0.1:2", "http://[::1]:2")
        );
        fs::write(path(data.path()), "{").unwrap();
        assert!(ServerAddresses::read(data.path()).is_err());
    }
}
