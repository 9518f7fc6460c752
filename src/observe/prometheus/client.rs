//! Requests over HTTP, with bounds on their time and size.

use std::io::{self, Read};
use std::time::Duration;

use thiserror::Error;
use ureq::Agent;
use ureq::tls::{TlsConfig, TlsProvider};

use super::access::{Access, AccessError};

/// A connection and the first byte of an answer may take so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// A query over 10 240 GPUs takes a busy server so long before it begins to answer.
const EVALUATION: Duration = Duration::from_secs(15);
/// A whole answer may take so long: one of 10 240 GPUs has some 30 MB.
const WHOLE: Duration = Duration::from_secs(20);
/// No answer is larger.
pub const LARGEST: u64 = 128 << 20;

/// Asks servers, with what the user has configured.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    access: Access,
}

/// Why an answer cannot be had; displays without any secret.
#[derive(Debug, Error)]
pub enum FetchError {
    /// What is configured cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The connection or the protocol.
    #[error("{0}")]
    Http(String),
    /// The answer breaks off.
    #[error("the answer breaks off: {0}")]
    Cut(io::Error),
    /// It takes too long.
    #[error("no answer in time")]
    Slow,
    /// The server's refusal, with its words.
    #[error("{}", refusal(.0, .1))]
    Status(u16, String),
    /// More than any server of GPUs says.
    #[error("the answer is larger than {} MiB", LARGEST >> 20)]
    Endless,
}

fn refusal(code: &u16, words: &str) -> String {
    let hint = match code {
        401 | 403 => ": see `memwall help sources` for tokens and passwords",
        _ => "",
    };
    format!("{}{hint}", format!("HTTP {code} {words}").trim_end())
}

impl Client {
    /// A client with the user's access.
    ///
    /// # Errors
    /// A file of authorities that cannot be used.
    pub fn new(access: Access) -> Result<Self, AccessError> {
        let tls = TlsConfig::builder().provider(TlsProvider::Rustls).root_certs(access.authorities()?).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .timeout_resolve(Some(PATIENCE))
            .timeout_connect(Some(PATIENCE))
            .timeout_global(Some(WHOLE))
            .http_status_as_error(false)
            // An answer from elsewhere is not the one that was asked for, and headers may be secret.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("memwall/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self { agent: config.into(), access })
    }

    /// The body of the answer to a GET with these parameters.
    ///
    /// # Errors
    /// Whatever keeps it from being whole.
    pub fn get(&self, url: &str, parameters: &[(&str, &str)]) -> Result<Vec<u8>, FetchError> {
        self.get_within(PATIENCE, url, parameters)
    }

    /// The same of a server that has to work out its answer first.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn query(&self, url: &str, parameters: &[(&str, &str)]) -> Result<Vec<u8>, FetchError> {
        self.get_within(EVALUATION, url, parameters)
    }

    fn get_within(&self, patience: Duration, url: &str, parameters: &[(&str, &str)]) -> Result<Vec<u8>, FetchError> {
        let headers = self.access.headers()?;
        let ask = || {
            let request = self.agent.get(url).query_pairs(parameters.iter().copied());
            let request = request.config().timeout_recv_response(Some(patience)).build();
            headers.iter().fold(request, |request, (name, value)| request.header(name.as_str(), value)).call()
        };
        // A server may close a connection that was kept at the moment of the next request: that is asked again on a new
        // one (RFC 9112, section 9.3.1).
        let mut answer = ask().or_else(|error| if is_closed(&error) { ask() } else { Err(error) }).map_err(http)?;
        let status = answer.status();
        // A query API tells in the body of a refusal what is wrong with the query.
        let is_told = matches!(status.as_u16(), 400 | 422) && is_json(answer.headers().get("content-type"));
        if !status.is_success() && !is_told {
            return Err(FetchError::Status(status.as_u16(), status.canonical_reason().unwrap_or_default().to_owned()));
        }
        let mut body = Vec::new();
        let reader = answer.body_mut().with_config().limit(u64::MAX).reader();
        reader.take(LARGEST).read_to_end(&mut body).map_err(cut)?;
        if body.len() as u64 == LARGEST {
            return Err(FetchError::Endless);
        }
        Ok(body)
    }
}

fn is_json(kind: Option<&ureq::http::HeaderValue>) -> bool {
    kind.and_then(|kind| kind.to_str().ok()).is_some_and(|kind| kind.starts_with("application/json"))
}

fn is_closed(error: &ureq::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let ureq::Error::Io(error) = error else { return false };
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn http(error: ureq::Error) -> FetchError {
    match error {
        ureq::Error::Timeout(_) => FetchError::Slow,
        // A header's value is not repeated.
        ureq::Error::Http(_) => {
            FetchError::Http("a configured header has characters that no header may have".to_owned())
        }
        error => {
            let words = match &error {
                ureq::Error::Io(error) => error.to_string(),
                error => error.to_string(),
            };
            FetchError::Http(plain(&words).map_or(words, str::to_owned))
        }
    }
}

/// What the errors of TLS that a user can mend mean, by rustls's words.
fn plain(words: &str) -> Option<&'static str> {
    const PLAIN: [(&str, &str); 4] = [
        (
            "UnknownIssuer",
            "the server's certificate is signed by an authority that is not known here: `access.ca` names yours, see \
             `memwall help sources`",
        ),
        ("certificate expired", "the server's certificate has expired"),
        ("not valid for name", "the server's certificate is for another host name"),
        ("InvalidContentType", "the server does not speak TLS: write http:// instead of https://"),
    ];
    PLAIN.iter().find(|(theirs, _)| words.contains(theirs)).map(|(_, ours)| *ours)
}

fn cut(error: io::Error) -> FetchError {
    if error.kind() == io::ErrorKind::TimedOut { FetchError::Slow } else { FetchError::Cut(error) }
}

#[cfg(test)]
mod tests {
    use super::plain;

    /// As rustls 0.23 words them (`error.rs`).
    #[test]
    fn what_is_wrong_with_tls_is_said_in_plain_words() {
        let expired = "invalid peer certificate: certificate expired: verification time 1795932131 (UNIX), but …";
        for (theirs, ours) in [
            ("invalid peer certificate: UnknownIssuer", "`access.ca`"),
            (expired, "has expired"),
            ("invalid peer certificate: certificate not valid for name \"a\"; certificate …", "another host name"),
            ("received corrupt message of type InvalidContentType", "write http://"),
        ] {
            assert!(plain(theirs).is_some_and(|words| words.contains(ours)), "{theirs}");
        }
        assert_eq!(plain("Connection refused (os error 111)"), None);
    }
}
