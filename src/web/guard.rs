//! Who may speak to the dashboard at all: the names it answers to, and the headers every response
//! carries.

use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::error::WebError;
use super::state::Shared;

/// The host names the dashboard answers to. A page of a rebound name counts as same-origin for the
/// browser, so this check is what stands between a hostile site and the loopback address.
pub(crate) struct HostList(Vec<String>);

impl HostList {
    /// Loopback names and the bound address with its port, and what the operator allows: `name`
    /// stands for that name without a port (as a proxy in front sends it) and with the bound one,
    /// `name:port` for itself alone.
    pub(crate) fn new(bound: SocketAddr, allowed: &[String]) -> Self {
        let port = bound.port();
        let mut hosts: Vec<String> =
            ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}")).into();
        if port == 80 {
            hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        if !bound.ip().is_unspecified() {
            hosts.push(bound.to_string());
        }
        for host in allowed {
            let host = host.to_ascii_lowercase();
            if !has_port(&host) {
                hosts.push(format!("{host}:{port}"));
            }
            hosts.push(host);
        }
        Self(hosts)
    }

    /// True when the request names exactly one host, and it is ours.
    fn allows(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let mut named = headers.get_all(header::HOST).iter();
        let by_header = named.next().map(HeaderValue::as_bytes);
        if named.next().is_some() {
            return false;
        }
        let by_uri = uri.authority().map(|authority| authority.as_str().as_bytes());
        let mut any = false;
        for host in [by_header, by_uri].into_iter().flatten() {
            any = true;
            if !self.0.iter().any(|ours| ours.as_bytes().eq_ignore_ascii_case(host)) {
                return false;
            }
        }
        any
    }
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(name, port)| {
        port.parse::<u16>().is_ok() && (!name.contains(':') || name.ends_with(']'))
    })
}

/// Refuses requests for hosts that are not ours.
pub(crate) async fn check_host(
    State(state): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    if state.hosts.allows(request.headers(), request.uri()) {
        return next.run(request).await;
    }
    tracing::warn!("a request for a host that is not allowed was refused");
    WebError::OtherHost.into_response()
}

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'";

const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), \
    gyroscope=(), magnetometer=(), microphone=(), payment=(), usb=()";

/// Puts the security headers on every response, errors included.
pub(crate) async fn add_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not `no-referrer`: with it browsers send `Origin: null` for our own forms, and over plain
        // HTTP to another machine the origin is all that the cross-site check has.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(allowed: &[&str], hosts: &[&str], uri: &str) -> bool {
        let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
        let list = HostList::new("127.0.0.1:7700".parse().unwrap(), &allowed);
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        list.allows(&headers, &uri.parse().unwrap())
    }

    #[test]
    fn only_our_own_names_pass() {
        for host in ["localhost:7700", "127.0.0.1:7700", "[::1]:7700", "LOCALHOST:7700"] {
            assert!(allows(&[], &[host], "/"), "{host}");
        }
        for host in [
            "evil.example",
            "localhost",
            "localhost:7701",
            "localhost:7700.evil.example",
            "::1",
            "",
        ] {
            assert!(!allows(&[], &[host], "/"), "{host}");
        }
    }

    #[test]
    fn missing_double_and_contradicting_hosts_are_refused() {
        assert!(!allows(&[], &[], "/"));
        assert!(!allows(&[], &["localhost:7700", "localhost:7700"], "/"));
        assert!(!allows(&[], &["localhost:7700"], "http://evil.example/"));
        assert!(allows(&[], &[], "http://localhost:7700/"));
    }

    #[test]
    fn the_operator_can_add_names() {
        assert!(allows(&["audit.example"], &["audit.example"], "/"));
        assert!(allows(&["audit.example"], &["audit.example:7700"], "/"));
        assert!(!allows(&["audit.example"], &["audit.example:1"], "/"));
        assert!(!allows(&["audit.example:443"], &["audit.example"], "/"));
    }
}
