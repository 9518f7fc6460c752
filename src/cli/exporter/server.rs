//! The page over HTTP: one answer a connection, bounded in time, size and number.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::Sender;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use crate::report::metrics::MetricsFormat;

/// Connections that are served at once: the others wait.
const CONNECTIONS: usize = 64;

/// The longest that a request's head may take to arrive.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// The longest that a connection lasts, whoever is slow.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(30);

/// A request's head is not longer.
const HEAD_BYTES: usize = 16 << 10;

/// How long GPUs that do not answer are waited for, and which part of the time that Prometheus gives.
const SOURCE_PATIENCE: Duration = Duration::from_secs(3);
const SHARE_OF_TIMEOUT: f64 = 0.8;

/// Prometheus says in this header how long it waits.
const TIMEOUT_HEADER: &str = "x-prometheus-scrape-timeout-seconds";

const INDEX: &str = "MemWall exporter. The metrics are at /metrics.\n";

/// Somebody who wants the page.
#[derive(Debug)]
pub struct ScrapeRequest {
    /// How the page is written.
    pub format: MetricsFormat,
    /// How long GPUs may take.
    pub patience: Duration,
    /// Where the page goes.
    pub answer: oneshot::Sender<String>,
}

/// Accepts connections for good.
pub async fn serve(listener: TcpListener, scrapes: Sender<ScrapeRequest>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let scrapes = scrapes.clone();
                tokio::spawn(async move {
                    // Whoever is cut off is told by that.
                    let _ = timeout(CONNECTION_PATIENCE, serve_connection(stream, scrapes)).await;
                    drop(slot);
                });
            }
            // No descriptor is left, or the other side has gone: both pass.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, scrapes: Sender<ScrapeRequest>) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        let scrapes = scrapes.clone();
        async move { Ok::<_, Infallible>(respond(&request, &scrapes).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn respond(request: &Request<Incoming>, scrapes: &Sender<ScrapeRequest>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/metrics" => metrics(request, scrapes).await,
        "/" => text(StatusCode::OK, INDEX),
        "/-/healthy" => text(StatusCode::OK, "ok\n"),
        _ => text(StatusCode::NOT_FOUND, "not here: the metrics are at /metrics\n"),
    }
}

async fn metrics(request: &Request<Incoming>, scrapes: &Sender<ScrapeRequest>) -> Response<Full<Bytes>> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    // Several `Accept` lines mean what one means that joins them.
    let accepts = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = MetricsFormat::of_accept(&accepts.collect::<Vec<_>>().join(","));
    let patience = patience(header(TIMEOUT_HEADER));
    let (answer, answered) = oneshot::channel();
    let sent = scrapes.send(ScrapeRequest { format, patience, answer }).await;
    match (sent, answered.await) {
        (Ok(()), Ok(page)) => typed(StatusCode::OK, format.content_type(), page),
        _ => text(StatusCode::SERVICE_UNAVAILABLE, "the exporter ends\n"),
    }
}

/// How long a scrape may wait for the GPUs.
fn patience(told: Option<&str>) -> Duration {
    let told = told.and_then(|told| told.parse::<f64>().ok()).map(|seconds| seconds * SHARE_OF_TIMEOUT);
    let told = told.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    told.map_or(SOURCE_PATIENCE, |told| told.min(SOURCE_PATIENCE))
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", body)
}

fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_waits_no_longer_than_prometheus_does() {
        assert_eq!(patience(Some("1")), Duration::from_millis(800));
        for told in [None, Some("10"), Some("x"), Some("-1"), Some("NaN"), Some("1e300")] {
            assert_eq!(patience(told), SOURCE_PATIENCE, "{told:?}");
        }
    }
}
