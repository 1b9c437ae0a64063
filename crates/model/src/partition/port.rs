//! A TCP port of the host that leads to one of a partition's program: `127.0.0.1:8080:80`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use units::Reason;

/// A port of the host that leads to one in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortSpec {
    /// Where the host listens.
    pub host: SocketAddr,
    /// The port in the partition.
    pub inside: u16,
}

impl PortSpec {
    /// Whether both cannot be listened at.
    pub fn clashes(&self, other: &Self) -> bool {
        let (own, other) = (self.host, other.host);
        let any = own.ip().is_unspecified() || other.ip().is_unspecified();
        own.port() == other.port() && (any || own.ip() == other.ip())
    }
}

impl FromStr for PortSpec {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Reason> {
        let wanted = || {
            format!("wanted [ADDRESS:]HOST-PORT:PORT, such as 8080:80 or 127.0.0.1:8080:80, got \"{text}\"")
        };
        let (before, inside) = text.rsplit_once(':').ok_or_else(wanted)?;
        let (address, host) =
            before.rsplit_once(':').map_or((None, before), |(address, host)| (Some(address), host));
        let address = match address {
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(text) => {
                let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
                bare.parse().map_err(|_| wanted())?
            }
        };
        let number = |word: &str| {
            let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            let number: u16 = word.parse().ok().filter(|_| digits).ok_or_else(wanted)?;
            if number == 0 {
                return Err(format!("0 is no port that can be reached: {}", wanted()));
            }
            Ok(number)
        };
        Ok(Self { host: SocketAddr::new(address, number(host)?), inside: number(inside)? })
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.inside)
    }
}

impl TryFrom<String> for PortSpec {
    type Error = Reason;

    fn try_from(text: String) -> Result<Self, Reason> {
        text.parse()
    }
}

impl From<PortSpec> for String {
    fn from(port: PortSpec) -> Self {
        port.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_meant_unless_an_address_is_named() {
        for (text, wanted) in [
            ("8080:80", "127.0.0.1:8080:80"),
            ("127.0.0.1:8080:80", "127.0.0.1:8080:80"),
            ("0.0.0.0:1:65535", "0.0.0.0:1:65535"),
            ("[::1]:8080:80", "[::1]:8080:80"),
        ] {
            let port: PortSpec = text.parse().expect(text);
            assert_eq!(port.to_string(), wanted);
            assert_eq!(port.to_string().parse(), Ok(port));
        }
        for text in
            ["", "80", ":80", "80:", "a:80", "+80:80", "1.2.3:8080:80", "localhost:80:80", "70000:80", "::"]
        {
            assert!(
                text.parse::<PortSpec>().expect_err(text).to_string().contains("wanted [ADDRESS:]"),
                "{text}"
            );
        }
        for text in ["0:80", "80:0"] {
            assert!(text.parse::<PortSpec>().expect_err(text).to_string().contains("0 is no port"), "{text}");
        }
    }
}
