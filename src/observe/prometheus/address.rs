//! Addresses of servers and pages, read once and never shown with a secret in them.

use std::fmt;

use super::PrometheusError;

/// Where a server or a page is: `http://host:port/path?query`, without a name or password.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// `http` or `https`.
    scheme: &'static str,
    /// Host and port.
    host: String,
    /// From the first `/` on, without one at its end; empty where nothing follows the host.
    path: String,
    /// Behind the `?`; it may hold a token, so it is not shown.
    query: Option<String>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.host, self.path)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Address {
    /// Reads `HOST:PORT`, or the same with a scheme and a path.
    ///
    /// # Errors
    /// What is no address, and one with a name or password in it, which is not repeated.
    pub fn read(text: &str) -> Result<Self, PrometheusError> {
        let text = text.trim();
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => ("http", rest),
            Some(("https", rest)) => ("https", rest),
            Some(_) => return Err(PrometheusError::NoAddress(shown(text))),
            None => ("http", text),
        };
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let (host, path) = place.find('/').map_or((place, ""), |at| place.split_at(at));
        if host.contains('@') {
            return Err(PrometheusError::PasswordInAddress);
        }
        let no_text = |c: char| c.is_whitespace() || c.is_control();
        if host.is_empty() || rest.contains(no_text) {
            return Err(PrometheusError::NoAddress(shown(text)));
        }
        Ok(Self {
            scheme,
            host: host.to_owned(),
            path: path.trim_end_matches('/').to_owned(),
            query: query.map(str::to_owned),
        })
    }

    /// Host and port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether it is that of a page of metrics, by its path: an exporter's, or what a server has to be federated.
    #[must_use]
    pub fn is_page(&self) -> bool {
        ["/metrics", "/federate"].iter().any(|end| self.path.ends_with(end))
    }

    /// The page of metrics there: `/metrics` where no path was written.
    #[must_use]
    pub fn page(&self) -> Self {
        let path = if self.path.is_empty() { "/metrics".to_owned() } else { self.path.clone() };
        Self { path, ..self.clone() }
    }

    /// Where a server is federated from.
    #[must_use]
    pub fn federation(&self) -> Self {
        Self { path: format!("{}/federate", self.path), ..self.clone() }
    }

    /// All of it, for a request.
    #[must_use]
    pub fn request(&self) -> String {
        let query = self.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        format!("{self}{query}")
    }

    /// The endpoint of the query API under it, for a request.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> String {
        let query = self.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        format!("{self}/api/v1/{name}{query}")
    }
}

/// What is no address, without what may be secret in it.
fn shown(text: &str) -> String {
    let text = text.split('?').next().unwrap_or_default();
    match text.rsplit_once('@') {
        Some((_, after)) => format!("…@{after}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_may_be_secret() {
        let address = Address::read("https://mimir:9009/prometheus/?token=abc").unwrap();
        assert_eq!(address.to_string(), "https://mimir:9009/prometheus");
        assert_eq!(address.endpoint("query"), "https://mimir:9009/prometheus/api/v1/query?token=abc");
        assert_eq!(format!("{address:?}"), "https://mimir:9009/prometheus");
        for text in ["http://user:secret@host:9090", "user:secret@host", "https://secret@host/metrics"] {
            let line = Address::read(text).unwrap_err().to_string();
            assert!(!line.contains("secret") && line.contains("config.yaml"), "{line}");
        }
        for text in ["ftp://user:secret@host", "http:// secret@host?secret", "http://"] {
            let line = Address::read(text).unwrap_err().to_string();
            assert!(!line.contains("secret"), "{line}");
        }
    }

    #[test]
    fn a_page_is_told_by_its_path() {
        for (text, is_page, page) in [
            ("host:9400", false, "http://host:9400/metrics"),
            ("host:9400/metrics", true, "http://host:9400/metrics"),
            ("http://host:9090/federate?match[]=up", true, "http://host:9090/federate"),
            ("host:9090/prometheus", false, "http://host:9090/prometheus"),
        ] {
            let address = Address::read(text).unwrap();
            assert_eq!((address.is_page(), address.page().to_string()), (is_page, page.to_owned()));
        }
    }
}
