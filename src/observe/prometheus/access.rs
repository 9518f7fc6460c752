//! What a server asks for before it answers: tokens, passwords, headers, and the authorities that sign its certificate.
//!
//! None of it is ever shown: `Debug` writes no secret, and errors name the file or the variable and not what it holds.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};

use crate::files;

/// No token, password or list of authorities is larger.
const LARGEST: u64 = 1 << 20;

/// A text that nobody may see.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The text itself.
    Text(String),
    /// The file that holds it, read for each request: tokens of a cluster are replaced while they are in use.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Secret"),
            Self::File(path) => write!(f, "Secret of {}", path.display()),
        }
    }
}

impl Secret {
    fn read(&self) -> Result<String, AccessError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => read(path).map(|text| text.trim_end_matches(['\r', '\n']).to_owned()),
        }
    }
}

/// How the user proves who asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Authorization {
    /// Not at all.
    #[default]
    None,
    /// By a bearer token.
    Bearer(Secret),
    /// By a name and a password (basic authentication).
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: Secret,
    },
}

/// What every request carries, and whom its answer is believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Who asks.
    pub authorization: Authorization,
    /// Further headers, such as the tenant that Mimir serves (`X-Scope-OrgID`).
    pub headers: Vec<(String, Secret)>,
    /// Certificates (PEM) of the authorities that may sign the server's, in place of the public ones.
    pub ca: Option<PathBuf>,
}

/// Why a request cannot be made as it is configured.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AccessError {
    /// A file that cannot be read.
    #[error("{file}: {why}")]
    File {
        /// Its path.
        file: String,
        /// What the system says.
        why: String,
    },
    /// A file of authorities without any.
    #[error("{0}: no certificate in it (PEM is needed)")]
    NoCertificate(String),
}

impl Access {
    /// The headers of a request, with what they hold.
    ///
    /// # Errors
    /// A file of a secret that cannot be read.
    pub fn headers(&self) -> Result<Vec<(String, String)>, AccessError> {
        let mut headers = Vec::new();
        match &self.authorization {
            Authorization::None => {}
            Authorization::Bearer(token) => {
                headers.push(("Authorization".to_owned(), format!("Bearer {}", token.read()?)))
            }
            Authorization::Basic { user, password } => {
                let pair = base64(format!("{user}:{}", password.read()?).as_bytes());
                headers.push(("Authorization".to_owned(), format!("Basic {pair}")));
            }
        }
        for (name, value) in &self.headers {
            headers.push((name.clone(), value.read()?));
        }
        Ok(headers)
    }

    /// The authorities: the user's own, else the public ones.
    ///
    /// # Errors
    /// A file that cannot be read, or has none.
    pub fn authorities(&self) -> Result<RootCerts, AccessError> {
        let Some(path) = &self.ca else { return Ok(RootCerts::WebPki) };
        let text = read(path)?;
        let certificate = |item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        };
        let certificates: Vec<Certificate<'static>> = parse_pem(text.as_bytes()).filter_map(certificate).collect();
        if certificates.is_empty() {
            return Err(AccessError::NoCertificate(path.display().to_string()));
        }
        Ok(RootCerts::new_with_certs(&certificates))
    }
}

fn read(path: &Path) -> Result<String, AccessError> {
    let failed = |why: std::io::Error| AccessError::File { file: path.display().to_string(), why: why.to_string() };
    files::read_text(path, LARGEST).map_err(failed)
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let number =
            chunk.iter().fold(0_usize, |number, byte| number << 8 | usize::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = LETTERS[number >> (18 - 6 * place) & 63];
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        // Section 10 of RFC 4648; the last is RFC 7617, section 2.
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("Aladdin:open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ] {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn a_secret_is_read_from_its_file_each_time_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "first\n").unwrap();
        let access = Access {
            authorization: Authorization::Bearer(Secret::File(file.clone())),
            headers: vec![("X-Scope-OrgID".to_owned(), Secret::Text("hidden".to_owned()))],
            ca: None,
        };
        assert_eq!(access.headers().unwrap()[0].1, "Bearer first");
        std::fs::write(&file, "second").unwrap();
        let expected = [("Authorization", "Bearer second"), ("X-Scope-OrgID", "hidden")];
        assert_eq!(access.headers().unwrap(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(!format!("{access:?}").contains("hidden"), "{access:?}");
        std::fs::remove_file(&file).unwrap();
        assert!(access.headers().unwrap_err().to_string().contains("token: "));
    }

    #[test]
    fn a_file_without_certificates_is_no_authority() {
        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, "hello").unwrap();
        let access = Access { ca: Some(ca), ..Access::default() };
        assert!(access.authorities().unwrap_err().to_string().contains("no certificate"));
    }
}
