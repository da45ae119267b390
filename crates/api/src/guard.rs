//! Who may ask what: keeps web pages and other machines out.
//!
//! A web page can send requests to this machine's ports. Three things stop it: its `Origin` is not ours; the fetch
//! metadata of its browser says that it comes from another site; and a page that points its own name at this machine
//! (DNS rebinding) has that name in `Host`. Programs of this machine send neither `Origin` nor fetch metadata and may
//! use the inference routes; the control routes want the token. A server that other machines reach wants it everywhere.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;
use crate::token::Token;

/// Who reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Programs of this machine.
    Loopback,
    /// Every machine of the network.
    Lan,
}

/// What a route gives away. The UI's files and `/health` give nothing away and have no such layer: a browser cannot
/// send a token for a page it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Answers of models. Free for programs of this machine, as with every local model server.
    Inference,
    /// The cluster, chats, settings: token only.
    Control,
}

#[derive(Clone, Debug)]
pub struct Guard {
    pub port: u16,
    pub exposure: Exposure,
    pub token: Token,
}

/// The outermost layer: refuses foreign `Host`s and pages, and hardens every answer.
pub async fn keep_pages_out(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let refusal = guard.check_host(request.headers(), request.uri()).and_then(|()| guard.check_page(&request));
    let mut response = match refusal {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in HARDENING {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Layer of one group of routes.
pub async fn check_token(
    State((guard, access)): State<(Arc<Guard>, Access)>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if guard.wants_token(access) && !guard.has_token(request.headers()) {
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorised", "this route needs the node's token")
            .hint("send `Authorization: Bearer …` with the token that `macrame serve` prints")
            .hint("programs of the same user find it in `api.json` in Macramé's folder"));
    }
    Ok(next.run(request).await)
}

impl Guard {
    fn wants_token(&self, access: Access) -> bool {
        match (access, self.exposure) {
            (Access::Inference, Exposure::Loopback) => false,
            (Access::Inference, Exposure::Lan) | (Access::Control, Exposure::Loopback | Exposure::Lan) => true,
        }
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let got = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (scheme, got) = got.split_once(' ').unwrap_or_default();
        scheme.eq_ignore_ascii_case("bearer") && self.token.matches(got.trim())
    }

    fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let named = match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
            (Some(host), None) => host,
            (None, _) | (Some(_), Some(_)) => "",
        };
        let absolute = uri.authority().map(|authority| authority.as_str());
        if self.is_own(named) && absolute.is_none_or(|host| self.is_own(host)) {
            return Ok(());
        }
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden_host", "the request is addressed to another host")
            .hint(format!("use http://127.0.0.1:{}", self.port)))
    }

    fn check_page(&self, request: &Request) -> Result<(), Problem> {
        let refused = || {
            Problem::new(StatusCode::FORBIDDEN, "forbidden_origin", "web pages other than Macramé's own may not ask")
                .hint("call the API from a program, not from a page")
        };
        let headers = request.headers();
        for origin in headers.get_all(header::ORIGIN) {
            let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
            if !own.is_some_and(|host| self.is_own(host)) {
                return Err(refused());
            }
        }
        let metadata = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        match metadata("sec-fetch-site") {
            None | Some("same-origin" | "none") => Ok(()),
            // A link to the UI on another page, clicked: the page learns nothing of what opens.
            Some(_) if request.method() == Method::GET && metadata("sec-fetch-dest") == Some("document") => Ok(()),
            Some(_) => Err(refused()),
        }
    }

    /// Whether `host`, with its port, is this server. An address cannot be rebound as a name can, so when other
    /// machines may ask, every address is good.
    fn is_own(&self, host: &str) -> bool {
        let Some((name, port)) = split_port(host) else { return false };
        if port != self.port {
            return false;
        }
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        match (address.parse::<IpAddr>(), self.exposure) {
            (Ok(address), Exposure::Loopback) => address.is_loopback(),
            (Ok(_), Exposure::Lan) => true,
            (Err(_), Exposure::Loopback | Exposure::Lan) => name.eq_ignore_ascii_case("localhost"),
        }
    }
}

/// Name and port; port 80 is left out by browsers.
fn split_port(host: &str) -> Option<(&str, u16)> {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => Some((name, port.parse().ok()?)),
        Some(_) | None => Some((host, 80)),
    }
}

/// For the UI above all. `ipc:` is how the app's window reaches its shell; inline styles are the drawing's positions.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data:; font-src 'self' data:; connect-src 'self' ipc: http://ipc.localhost; object-src 'none'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HARDENING: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(exposure: Exposure) -> Guard {
        Guard { port: 4747, exposure, token: Token::random() }
    }

    #[test]
    fn a_host_is_ours_by_address_and_port() {
        let local = guard(Exposure::Loopback);
        for own in ["localhost:4747", "127.0.0.1:4747", "[::1]:4747", "LOCALHOST:4747"] {
            assert!(local.is_own(own), "{own}");
        }
        let foreign = ["", "localhost", "127.0.0.1:4748", "evil.example:4747", "localhost.evil.example:4747"];
        for foreign in foreign.into_iter().chain(["192.168.1.5:4747", "127.0.0.1:x", "[::1]", "::1:4747:4747"]) {
            assert!(!local.is_own(foreign), "{foreign}");
        }
        let lan = guard(Exposure::Lan);
        assert!(lan.is_own("192.168.1.5:4747") && lan.is_own("[fe80::1]:4747"));
        assert!(!lan.is_own("evil.example:4747"), "a name can be rebound");
    }

    #[test]
    fn the_token_is_asked_for_where_something_is_given_away() {
        let local = guard(Exposure::Loopback);
        assert_eq!([Access::Inference, Access::Control].map(|access| local.wants_token(access)), [false, true]);
        let lan = guard(Exposure::Lan);
        assert_eq!([Access::Inference, Access::Control].map(|access| lan.wants_token(access)), [true, true]);
    }
}
