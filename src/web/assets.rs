//! Style, script and icon: embedded, under names that change with their content, so that they can
//! be cached for ever.

use std::sync::OnceLock;

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::error::WebError;

const STYLE: &str = include_str!("../../templates/assets/calltrail.css");
const SCRIPT: &str = include_str!("../../templates/assets/calltrail.js");
const ICON: &str = include_str!("../../templates/assets/icon.svg");

/// The addresses of the assets.
pub(crate) struct Assets {
    pub(crate) style: String,
    pub(crate) script: String,
    pub(crate) icon: String,
}

impl Assets {
    pub(crate) fn get() -> &'static Self {
        static ASSETS: OnceLock<Assets> = OnceLock::new();
        ASSETS.get_or_init(|| Self {
            style: format!("/assets/{}.css", digest(STYLE)),
            script: format!("/assets/{}.js", digest(SCRIPT)),
            icon: format!("/assets/{}.svg", digest(ICON)),
        })
    }
}

fn digest(content: &str) -> String {
    blake3::hash(content.as_bytes()).to_hex().chars().take(16).collect()
}

/// `GET /assets/{name}`
pub(crate) async fn show(Path(name): Path<String>) -> Result<Response, WebError> {
    let assets = Assets::get();
    let path = format!("/assets/{name}");
    let (content, kind) = match path {
        path if path == assets.style => (STYLE, "text/css; charset=utf-8"),
        path if path == assets.script => (SCRIPT, "text/javascript; charset=utf-8"),
        path if path == assets.icon => (ICON, "image/svg+xml"),
        _ => return Err(WebError::NotFound),
    };
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    Ok((headers, content).into_response())
}
